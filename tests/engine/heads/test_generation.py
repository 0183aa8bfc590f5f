"""Callers that the model plays, and its replies to them, with the scripted engine."""

from collections import Counter
from pathlib import Path

import pytest

from engine.fake import Script, ScriptedEngine
from engine.heads.generation import SAMPLED_TEMPERATURE, invented_questions, replies
from engine.heads.prompts import Prompt, PromptsError, answered, caller_openings, read_conversations

pytestmark = pytest.mark.anyio


def ignore(done: int, total: int) -> None:
    """No progress is shown."""


async def started() -> ScriptedEngine:
    engine = ScriptedEngine(script=Script(first_token_s=0, step_time_s=0))
    await engine.start()
    return engine


async def test_replies_are_greedy_and_sampled_in_the_share_asked_for() -> None:
    engine = await started()
    prompts = [Prompt((1, 2, at), f"topic {at % 2}") for at in range(1, 9)]
    found = await replies(engine, prompts, 12, 0.25, 3, 0, ignore)
    assert [reply.prompt_ids for reply in found] == [prompt.ids for prompt in prompts]
    assert Counter(reply.temperature for reply in found) == {0.0: 2, SAMPLED_TEMPERATURE: 6}
    assert all(0 < len(reply.ids) <= 12 for reply in found)
    assert engine.running == 0


async def test_questions_become_prompts_that_end_where_the_reply_begins() -> None:
    engine = await started()
    steps: list[int] = []
    found = await invented_questions(engine, ["tea"], 4, 2, 0, lambda done, total: steps.append(done))
    assert steps == [1, 2, 3, 4]
    assert found
    assert all(prompt.topic == "tea" for prompt in found)
    assert len({prompt.ids for prompt in found}) == len(found)
    opening = engine.tokenizer.render([{"role": "user", "content": "x"}], add_generation_prompt=True).split("x")[1]
    assert engine.tokenizer.decode(found[0].ids).endswith(engine.tokenizer.decode(engine.tokenizer.encode(opening)))


async def test_callers_open_in_turn_and_poor_questions_are_dropped() -> None:
    tokenizer = (await started()).tokenizer
    openings = caller_openings(tokenizer, ["tea", "coffee"], 3)
    assert [prompt.topic for prompt in openings] == ["tea", "coffee", "tea"]
    assert "caller says this" not in tokenizer.decode(openings[0].ids)
    assert answered(tokenizer, "tea", "  ") is None
    assert answered(tokenizer, "tea", "x" * 500) is None


async def test_a_file_of_conversations_is_answered_at_its_end(tmp_path: Path) -> None:
    tokenizer = (await started()).tokenizer
    path = tmp_path / "calls.jsonl"
    user, agent = '{"role": "user", "content": "Hello"}', '{"role": "assistant", "content": "Hi"}'
    path.write_text(f'{{"messages": [{user}], "topic": "t"}}\n{{"messages": [{user}, {agent}], "topic": "t"}}\n')
    first, second = read_conversations(path, tokenizer)
    assert first == second
    path.write_text('{"messages": "no"}\n')
    with pytest.raises(PromptsError, match="line 1"):
        read_conversations(path, tokenizer)
    path.write_text("")
    with pytest.raises(PromptsError, match="no conversation"):
        read_conversations(path, tokenizer)
