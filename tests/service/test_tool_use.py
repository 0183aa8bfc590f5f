"""Tools in the native protocol: calls out of a reply, results into the next prompt, and what the caller does meanwhile.

The engine is scripted and speaks the Hermes format; it is read by the engine package's own reader, which is vLLM's.
"""

import asyncio
import importlib.util
import json
from collections.abc import Callable
from typing import Any

import pytest

from engine.api import RequestRefused
from engine.fake import Script
from engine.fake_tokenizer import WordTokenizer
from tests.service.native_bridge import NativeBridge
from tests.service.virtual_call import VirtualCall, settle, virtual_call
from tests.virtual_time import run_virtual

pytestmark = pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="the engine is not installed")

TOOL = {
    "type": "function",
    "function": {"name": "opening_hours", "description": "Hours.", "parameters": {"type": "object", "properties": {}}},
}
CALL = '<tool_call>{"name": "opening_hours", "arguments": {"day": "Sunday"}}</tool_call>'
ANSWER = "We open at eight."


class Tokenizer(WordTokenizer):
    """With what vLLM's parsers ask of a tokenizer."""

    all_special_ids = (256, 257, 258)

    def get_vocab(self) -> dict[str, int]:
        return {}


def reader(tools: Any) -> Any:
    from engine.tool_calls import ToolCallReader

    return ToolCallReader("hermes", Tokenizer(), tools)


def scripted(first: str) -> Callable[[str], str]:
    """`first` to the caller's words, the answer once there is a result."""
    return lambda prompt: ANSWER if "\ntool\n" in prompt else first


def talk(first: str, then: Callable[[VirtualCall, NativeBridge], Any], **rest: Any) -> list[str]:
    """A call that says one thing and goes on with `then`; the prompts."""
    prompts: list[str] = []

    async def main() -> None:
        bridge = NativeBridge(tools=[TOOL])
        script = Script(first_token_s=0.1, step_time_s=0.04, burst_sizes=(1, 2, 3))
        options = {"bridge": bridge, "tool_reader": reader, **rest}
        async with virtual_call("native", scripted(first), script, **options) as call:
            await call.say("When do you open on Sunday?")
            await asyncio.sleep(3.0)
            await then(call, bridge)
        prompts.extend(call.prompts)

    run_virtual(main())
    return prompts


def of(bridge: NativeBridge, kind: str) -> list[dict[str, Any]]:
    return [message for message in bridge.messages if message["type"] == kind]


def said(bridge: NativeBridge, turn_id: int) -> str:
    return "".join(message["text"] for message in of(bridge, "token") if message["turn_id"] == turn_id)


def result(call: dict[str, Any], content: str = "open at eight") -> str:
    return json.dumps({"type": "tool_result", "tool_call_id": call["tool_call_id"], "content": content})


@pytest.mark.parametrize("before", ["", "Let me look. "])
def test_a_call_makes_the_round_trip_and_stays_in_the_history(before: str) -> None:
    async def then(call: VirtualCall, bridge: NativeBridge) -> None:
        [asked] = of(bridge, "tool_call")
        assert (asked["name"], json.loads(asked["arguments"])) == ("opening_hours", {"day": "Sunday"})
        assert said(bridge, 0).strip() == before.strip()
        assert [end["reason"] for end in of(bridge, "turn_end")] == ["tool_calls"]
        call.send([result(asked)])
        await asyncio.sleep(2.0)
        assert said(bridge, 1) == ANSWER
        assert of(bridge, "turn_end")[-1]["reason"] == "stop"
        call.send([result(asked)])  # late and doubled
        await settle()
        assert of(bridge, "error")[-1]["code"] == "no_tool_call"
        await call.say("Thanks.")
        await settle()

    prompts = talk(before + CALL, then)
    assert len(prompts) == 3
    assert "opening_hours" in prompts[0]
    assert prompts[1].startswith(prompts[0] + before + CALL)
    assert prompts[1].endswith("tool\nopen at eight\nassistant\n")
    assert prompts[2].startswith(prompts[1] + ANSWER)  # append-only: what was called and found is still there


def test_two_calls_wait_for_both_results_and_keep_their_order() -> None:
    async def then(call: VirtualCall, bridge: NativeBridge) -> None:
        first, second = of(bridge, "tool_call")
        assert first["tool_call_id"] != second["tool_call_id"]
        call.send([result(second, "B")])
        await asyncio.sleep(1.0)
        assert len(call.prompts) == 1
        call.send([result(first, "A")])
        await asyncio.sleep(1.0)

    prompts = talk(CALL + CALL, then)
    assert prompts[1].endswith("tool\nA\ntool\nB\nassistant\n")


def test_a_caller_who_goes_on_without_the_result_leaves_no_half_a_call_behind() -> None:
    async def then(call: VirtualCall, bridge: NativeBridge) -> None:
        [asked] = of(bridge, "tool_call")
        await call.say("Never mind.")
        await settle()
        call.send([result(asked)])
        await settle()
        assert of(bridge, "error")[-1]["code"] == "no_tool_call"

    prompts = talk("Let me look. " + CALL, then)
    assert len(prompts) == 2
    assert "<tool_call>" not in prompts[1]
    assert "assistant\nLet me look." in prompts[1]


def test_text_that_only_looks_like_a_call_is_said() -> None:
    async def then(call: VirtualCall, bridge: NativeBridge) -> None:
        assert of(bridge, "tool_call") == []
        assert said(bridge, 0) == "Five <"
        assert of(bridge, "turn_end")[-1]["reason"] == "stop"

    talk("Five <", then)


def test_a_service_without_a_parser_says_so_and_the_call_goes_on() -> None:
    async def then(call: VirtualCall, bridge: NativeBridge) -> None:
        [error] = of(bridge, "error")
        assert (error["code"], error["field"]) == ("no_tools", "tools")
        assert "without a tool parser" in error["message"]
        assert said(bridge, 0) == "Hello."

    assert "opening_hours" not in talk("Hello.", then, tool_reader=None)[0]


@pytest.mark.parametrize(
    ("parser", "tool", "reason"),
    [
        ("hermes", {"type": "function", "function": {"name": 7}}, "functions of the OpenAI"),
        ("nonsense", TOOL, "no tool parser named nonsense"),
    ],
)
def test_what_cannot_be_read_is_named(parser: str, tool: Any, reason: str) -> None:
    from engine.tool_calls import ToolCallReader

    with pytest.raises(RequestRefused, match=reason):
        ToolCallReader(parser, Tokenizer(), [tool])
