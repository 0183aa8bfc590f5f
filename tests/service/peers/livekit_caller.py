"""The language model client of livekit-agents against this service. Runs in an environment of its own, not in ours.

    python livekit_caller.py (stream | tool | interrupt) BASE_URL MODEL

The last line on standard output is JSON. `interrupt` prints a line once the reply has been interrupted, and keeps the
client open until a line comes on standard input.
"""

import asyncio
import json
import sys
from typing import Any, Literal

from livekit.agents.llm import ChatContext, FunctionCall, FunctionCallOutput, function_tool
from livekit.plugins import openai


@function_tool
async def opening_hours(day: Literal["Monday", "Sunday"]) -> str:
    """Opening hours of one weekday.

    Args:
        day: the weekday.
    """
    return json.dumps({"day": day, "open": "07:00", "close": "18:00"})


CHOSEN: Any = {"type": "function", "function": {"name": "opening_hours"}}


def context(text: str) -> ChatContext:
    asked = ChatContext.empty()
    asked.add_message(role="user", content=text)
    return asked


async def stream(llm: openai.LLM) -> dict[str, Any]:
    texts: list[str] = []
    async with llm.chat(chat_ctx=context("Tell me about the sea.")) as chunks:
        async for chunk in chunks:
            if chunk.delta is not None and chunk.delta.content:
                texts.append(chunk.delta.content)
    return {"replies": [texts]}


async def tool(llm: openai.LLM) -> dict[str, Any]:
    asked = context("When do you open on Sunday?")
    called = await llm.chat(chat_ctx=asked, tools=[opening_hours], tool_choice=CHOSEN).collect()
    calls = []
    for call in called.tool_calls:
        arguments = json.loads(call.arguments)
        calls.append(arguments)
        result = await opening_hours(**arguments)
        asked.insert(FunctionCall(call_id=call.call_id, name=call.name, arguments=call.arguments))
        asked.insert(FunctionCallOutput(call_id=call.call_id, name=call.name, output=result, is_error=False))
    answered = await llm.chat(chat_ctx=asked, tools=[opening_hours], tool_choice="none").collect()
    return {"replies": [[answered.text]], "calls": calls}


async def interrupt(llm: openai.LLM) -> dict[str, Any]:
    chunks = llm.chat(chat_ctx=context("Tell me a long story about the sea and its ships."))
    texts: list[str] = []
    async for chunk in chunks:
        if chunk.delta is not None and chunk.delta.content:
            texts.append(chunk.delta.content)
        if len(texts) == 3:
            break
    await chunks.aclose()
    print(json.dumps({"texts": texts}), flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    return {"replies": [texts]}


async def main(mode: str, base_url: str, model: str) -> None:
    most = {"stream": 24, "tool": 96, "interrupt": 400}[mode]
    llm = openai.LLM(model=model, api_key="none", base_url=base_url, temperature=0.0, max_completion_tokens=most)
    result = await asyncio.wait_for({"stream": stream, "tool": tool, "interrupt": interrupt}[mode](llm), 120)
    await llm.aclose()
    print(json.dumps(result))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4]))
