import asyncio
from contextlib import aclosing
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.api import Engine, EngineDead, GenerateRequest, RequestRefused, Sampling, TokenBurst
from engine.fake import Script, ScriptedEngine
from engine.fake_tokenizer import WordTokenizer
from tests.virtual_time import run_virtual


async def started(reply: str, script: Script | None = None, **options: int) -> ScriptedEngine:
    engine = ScriptedEngine(reply, script, **options)  # type: ignore[arg-type]
    await engine.start()
    return engine


def ask(name: str = "r", **sampling: object) -> GenerateRequest:
    return GenerateRequest(name, (1, 2, 3), Sampling(**sampling))  # type: ignore[arg-type]


async def collect(engine: Engine, request: GenerateRequest) -> list[TokenBurst]:
    async with aclosing(engine.generate(request)) as bursts:
        return [burst async for burst in bursts]


def text_of(bursts: list[TokenBurst]) -> str:
    return "".join(piece for burst in bursts for piece in burst.pieces)


def test_a_trace_gives_exactly_its_bursts_at_its_times() -> None:
    async def body() -> None:
        engine = await started("one two three four five", Script(trace=((0.1, 1), (0.05, 3), (0.2, 2))))
        before = asyncio.get_running_loop().time()
        bursts = await collect(engine, ask())
        assert [len(burst.token_ids) for burst in bursts] == [1, 3, 2]
        assert [round(burst.core_time_s - before, 9) for burst in bursts] == [0.1, 0.15, 0.35]
        assert [burst.finish_reason for burst in bursts] == [None, None, "stop"]
        assert [burst.accepted for burst in bursts] == [0, 2, 1]
        assert text_of(bursts) == "one two three four five"
        assert bursts[-1].pieces == (" five", "")
        assert asyncio.get_running_loop().time() - before == pytest.approx(0.35)

    run_virtual(body())


def test_max_tokens_and_stop_strings_end_a_reply() -> None:
    async def body() -> None:
        engine = await started("one two three")
        short = await collect(engine, ask(max_tokens=2))
        assert (text_of(short), short[-1].finish_reason) == ("one two", "length")
        stopped = await collect(engine, ask(stop=(" three", "zzz")))
        assert (text_of(stopped), stopped[-1].finish_reason) == ("one two", "stop")

    run_virtual(body())


def test_characters_of_several_tokens_stay_whole() -> None:
    async def body() -> None:
        engine = await started("ok 😀é!", Script(burst_sizes=(1, 2, 3), seed=4))
        bursts = await collect(engine, ask())
        assert text_of(bursts) == "ok 😀é!"
        assert all(len(burst.pieces) == len(burst.token_ids) for burst in bursts)

    run_virtual(body())


def test_equal_requests_run_equally() -> None:
    async def body() -> None:
        engine = await started("a b c d e f g h i j", Script(burst_sizes=(1, 2, 4), seed=7))
        first = [len(burst.token_ids) for burst in await collect(engine, ask())]
        second = [len(burst.token_ids) for burst in await collect(engine, ask())]
        assert first == second
        assert len(set(first)) > 1

    run_virtual(body())


def test_running_counts_down_when_the_iterator_is_closed_or_the_reader_cancelled() -> None:
    async def body() -> None:
        engine = await started("a b c d e f g")
        async with aclosing(engine.generate(ask())) as bursts:
            await anext(bursts)
            assert engine.running == 1
        assert engine.running == 0
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await collect(engine, ask())
        assert engine.running == 0

    run_virtual(body())


def test_death_ends_every_reply_and_start_brings_the_engine_back() -> None:
    async def body() -> None:
        engine = await started("a b c d e f g", Script(die_after_bursts=3))
        results = await asyncio.gather(collect(engine, ask("a")), collect(engine, ask("b")), return_exceptions=True)
        assert [type(result) for result in results] == [EngineDead, EngineDead]
        assert (engine.dead, engine.running) == (True, 0)
        with pytest.raises(EngineDead):
            await collect(engine, ask())
        await engine.start()
        assert not engine.dead
        assert len(await collect(engine, ask(max_tokens=2))) == 2

    run_virtual(body())


def test_a_stall_hangs_until_the_reader_gives_up() -> None:
    async def body() -> None:
        engine = await started("a b c d", Script(stall_after_bursts=2))
        reply = engine.generate(ask())
        assert [(await anext(reply)).finish_reason for _ in range(2)] == [None, None]
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(reply), timeout=1000)
        assert engine.running == 0

    run_virtual(body())


def test_stop_ends_what_runs_and_may_be_called_twice() -> None:
    async def body() -> None:
        engine = await started("a b c d")
        reply = engine.generate(ask())
        await anext(reply)
        await engine.stop()
        await engine.stop()
        with pytest.raises(EngineDead):
            await anext(reply)

    run_virtual(body())


def test_a_bad_request_is_refused_before_the_first_burst() -> None:
    async def body() -> None:
        engine = await started("a", max_model_len=8)
        with pytest.raises(RequestRefused, match="prompt: 8 tokens"):
            await collect(engine, replace(ask(), prompt_token_ids=(1,) * 8))
        with pytest.raises(RequestRefused, match="prompt: is empty"):
            await collect(engine, replace(ask(), prompt_token_ids=()))
        async with aclosing(engine.generate(ask("twice"))) as bursts:
            await anext(bursts)
            with pytest.raises(RequestRefused, match="request_id"):
                await collect(engine, ask("twice"))

    run_virtual(body())


@given(st.text())
def test_the_tokenizer_is_reversible(text: str) -> None:
    text = text.encode(errors="replace").decode()
    tokenizer = WordTokenizer(max_words=3)
    plain = text.replace("<|", "")
    assert tokenizer.decode(tokenizer.encode(plain)) == plain


def test_the_chat_template_frames_every_message_and_special_tokens_carry_no_text() -> None:
    tokenizer = WordTokenizer()
    text = tokenizer.render([{"role": "user", "content": "Hi"}], add_generation_prompt=True)
    assert text == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    assert tokenizer.decode(tokenizer.encode(text)) == "user\nHi\nassistant\n"
    assert tokenizer.end_token_id in tokenizer.stop_token_ids
