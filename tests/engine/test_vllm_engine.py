"""The contract of `engine.api` against the real engine on the CPU: float32, embedded model, n-gram drafting."""

import asyncio
import itertools
import time
from contextlib import aclosing

import pytest

from engine.api import GenerateRequest, RequestRefused, Sampling, TokenBurst
from engine.vllm_engine import VllmEngine
from tests.real_engine import GREEDY, ask, collect, ids_of, nothing_left, text_of

pytestmark = [pytest.mark.engine, pytest.mark.anyio]

COUNTING = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,"
FACES = "😀 é 你好 😀 é 你好 😀 é 你好 😀 é 你好 😀 é"
LONG = " ".join(f"Item {number} costs {number * 7} coins." for number in range(60))


async def test_a_reply_keeps_the_contract(real_engine: VllmEngine) -> None:
    request = ask(real_engine, COUNTING)
    bursts = await collect(real_engine, request)
    assert [burst.finish_reason for burst in bursts] == [None] * (len(bursts) - 1) + ["length"]
    assert len(ids_of(bursts)) == 48
    assert all(len(burst.pieces) == len(burst.token_ids) >= 1 for burst in bursts)
    assert {burst.prompt_tokens for burst in bursts} == {len(request.prompt_token_ids)}
    times = [burst.core_time_s for burst in bursts]
    assert all(earlier < later for earlier, later in itertools.pairwise(times))
    assert text_of(bursts).startswith(" 13, 14, 15")


async def test_accepted_drafts_come_as_bursts_of_several_tokens(real_engine: VllmEngine) -> None:
    bursts = await collect(real_engine, ask(real_engine, COUNTING))
    sizes = [len(burst.token_ids) for burst in bursts]
    assert max(sizes) > 1
    assert max(sizes) <= 1 + 4
    checked = bursts[-1].draft_steps
    assert checked
    assert all(0 <= accepted <= drafted <= 4 for drafted, accepted in checked)
    # The last step may be cut at max_tokens after it was counted.
    assert 0 <= sum(accepted for _, accepted in checked) - sum(burst.accepted for burst in bursts) <= 4


@pytest.mark.parametrize("text", [COUNTING, FACES, "Once upon a time"])
async def test_the_pieces_are_the_text_of_the_ids(real_engine: VllmEngine, text: str) -> None:
    bursts = await collect(real_engine, ask(real_engine, text))
    got = text_of(bursts)
    whole = real_engine.tokenizer.decode(ids_of(bursts))
    # A character may still lack its last bytes where the reply is cut at max_tokens.
    assert whole.rstrip("\ufffd") == got.rstrip("\ufffd")


async def test_characters_of_several_tokens_are_never_torn(real_engine: VllmEngine) -> None:
    bursts = await collect(real_engine, ask(real_engine, FACES))
    pieces = [piece for burst in bursts for piece in burst.pieces]
    assert "" in pieces
    assert not any("\ufffd" in piece for piece in pieces[:-1])
    assert "😀" in "".join(pieces)


@pytest.mark.parametrize("stop", [(" 20,",), ("0, 21", "zzz"), ("18, 19, 20, 21",)])
async def test_a_stop_string_ends_the_text_exactly_before_it(real_engine: VllmEngine, stop: tuple[str, ...]) -> None:
    plain = text_of(await collect(real_engine, ask(real_engine, COUNTING)))
    assert stop[0] in plain
    bursts = await collect(real_engine, ask(real_engine, COUNTING, Sampling(max_tokens=48, temperature=0.0, stop=stop)))
    assert text_of(bursts) == plain[: plain.index(stop[0])]
    assert bursts[-1].finish_reason == "stop"
    assert all(len(burst.pieces) == len(burst.token_ids) for burst in bursts)
    assert await nothing_left(real_engine)


async def test_a_stop_token_ends_a_reply_and_carries_no_text(real_engine: VllmEngine) -> None:
    prompt = real_engine.tokenizer.render(
        [{"role": "user", "content": "Say only the word yes."}], add_generation_prompt=True
    )
    bursts = await collect(real_engine, ask(real_engine, prompt, Sampling(max_tokens=200, temperature=0.0)))
    assert bursts[-1].finish_reason == "stop"
    assert bursts[-1].token_ids[-1] in real_engine.tokenizer.stop_token_ids
    assert bursts[-1].pieces[-1] == ""


async def test_closing_the_iterator_aborts_the_request(real_engine: VllmEngine) -> None:
    request = ask(real_engine, "Once upon a time", Sampling(max_tokens=1000, temperature=0.0))
    async with aclosing(real_engine.generate(request)) as bursts:
        await anext(bursts)
        assert real_engine.running == 1
    assert await nothing_left(real_engine)


async def test_cancelling_the_reader_aborts_the_request(real_engine: VllmEngine) -> None:
    first = asyncio.Event()

    async def read() -> None:
        request = ask(real_engine, "Once upon a time", Sampling(max_tokens=1000, temperature=0.0))
        async with aclosing(real_engine.generate(request)) as bursts:
            async for _ in bursts:
                first.set()

    async with asyncio.TaskGroup() as group:
        reader = group.create_task(read())
        await first.wait()
        reader.cancel()
    assert reader.cancelled()
    assert await nothing_left(real_engine)
    assert len(real_engine.step_log) == 0


async def test_a_second_turn_is_served_from_the_prefix_cache(real_engine: VllmEngine) -> None:
    await real_engine.client.reset_prefix_cache()
    request = ask(real_engine, LONG[:600], Sampling(max_tokens=4, temperature=0.0))
    first = await collect(real_engine, request)
    second = await collect(real_engine, GenerateRequest("again", request.prompt_token_ids, request.sampling))
    assert first[0].cached_tokens == 0
    assert 0 < second[0].cached_tokens < len(request.prompt_token_ids)
    assert second[0].cached_tokens % 32 == 0
    assert ids_of(first) == ids_of(second)


async def test_a_seeded_reply_is_the_same_whether_or_not_its_prompt_is_read_in_chunks(real_engine: VllmEngine) -> None:
    await real_engine.client.reset_prefix_cache()
    sampling = Sampling(max_tokens=24, temperature=1.0, seed=11)
    request = ask(real_engine, LONG, sampling)
    assert len(request.prompt_token_ids) > 2 * 256
    chunked = await collect(real_engine, request)
    whole = await collect(real_engine, GenerateRequest("whole", request.prompt_token_ids, sampling))
    assert chunked[0].cached_tokens == 0
    assert len(request.prompt_token_ids) - whole[0].cached_tokens < 256
    assert ids_of(chunked) == ids_of(whole)
    other = await collect(
        real_engine, GenerateRequest("other", request.prompt_token_ids, Sampling(24, temperature=1.0, seed=12))
    )
    assert ids_of(other) != ids_of(chunked)
    assert not real_engine.dead


async def test_a_blocked_event_loop_changes_neither_the_number_of_bursts_nor_their_times(
    real_engine: VllmEngine,
) -> None:
    loop = asyncio.get_running_loop()
    request = ask(real_engine, "Once upon a time", Sampling(max_tokens=40, temperature=0.0))
    undisturbed = [len(burst.token_ids) for burst in await collect(real_engine, request)]
    bursts: list[TokenBurst] = []
    async with aclosing(real_engine.generate(ask(real_engine, "Once upon a time", request.sampling))) as replies:
        async for burst in replies:
            bursts.append(burst)
            if len(bursts) == 6:
                steps = [later.core_time_s - earlier.core_time_s for earlier, later in itertools.pairwise(bursts[1:])]
                blocked_from_s = loop.time()
                time.sleep(12 * max(steps))  # noqa: ASYNC251 (blocking the loop is what is tested)
                blocked_to_s = loop.time()
    assert [len(burst.token_ids) for burst in bursts] == undisturbed
    times = [burst.core_time_s for burst in bursts]
    assert all(earlier < later for earlier, later in itertools.pairwise(times))
    assert len([at for at in times if blocked_from_s < at < blocked_to_s]) >= 4


@pytest.mark.parametrize(
    ("prompt", "sampling", "parameter"),
    [
        ((), GREEDY, "prompt"),
        ((1,) * 2048, GREEDY, "prompt"),
        ((1, 2), Sampling(max_tokens=0), "max_tokens"),
        ((1, 2), Sampling(temperature=-1.0), "temperature"),
        ((1, 2), Sampling(top_p=0.0), "top_p"),
        ((1, 2), Sampling(stop=("",)), "stop"),
        ((1, 10_000_000), GREEDY, "prompt"),
    ],
)
async def test_a_request_that_cannot_be_served_is_refused_by_name(
    real_engine: VllmEngine, prompt: tuple[int, ...], sampling: Sampling, parameter: str
) -> None:
    with pytest.raises(RequestRefused) as refused:
        await collect(real_engine, GenerateRequest("refused", prompt, sampling))
    assert refused.value.parameter == parameter
    assert "\n" not in str(refused.value)
    assert real_engine.running == 0
    assert not real_engine.dead


async def test_replies_at_the_same_time_do_not_disturb_each_other(real_engine: VllmEngine) -> None:
    texts = [COUNTING, FACES, "Once upon a time", "The capital of France is"]
    alone = [ids_of(await collect(real_engine, ask(real_engine, text))) for text in texts]
    together = await asyncio.gather(*(collect(real_engine, ask(real_engine, text)) for text in texts))
    assert [ids_of(bursts) for bursts in together] == alone


async def test_a_prompt_that_fills_the_context_leaves_as_many_tokens_as_there_is_room(
    real_engine: VllmEngine,
) -> None:
    ids = (real_engine.tokenizer.encode(LONG) * 4)[: real_engine.max_model_len - 3]
    bursts = await collect(real_engine, GenerateRequest("full", tuple(ids), GREEDY))
    assert len(ids_of(bursts)) == 3
    assert bursts[-1].finish_reason == "length"


async def test_the_chat_template_is_the_model_s_own(real_engine: VllmEngine) -> None:
    tokenizer = real_engine.tokenizer
    text = tokenizer.render([{"role": "user", "content": "Hi"}], add_generation_prompt=True)
    assert text.endswith("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")
    ids = tokenizer.encode("<|im_end|>")
    assert len(ids) == 1
    assert ids[0] in tokenizer.stop_token_ids
    assert tokenizer.decode(tokenizer.encode("Hello there!")) == "Hello there!"
