"""A reply is the same with trees and without: float32, an oracle that drafts true continuations on all kinds of paths.

Every test asks twice: first the oracle knows nothing and the engine decodes plainly, then it knows the replies.
"""

from typing import Any

import pytest

from tests.engine.tree.tree_engine import Answer, TreeLab

pytestmark = [pytest.mark.engine, pytest.mark.anyio]

SUBJECTS = (
    "Once upon a time there was a",
    "The capital of France is",
    "1, 2, 3, 4, 5, 6, 7,",
    "def fibonacci(n):",
    "Dear Sir or Madam, I am writing to you",
    "The three states of matter are",
    "Monday, Tuesday, Wednesday,",
    "My favourite recipe starts with",
)
GREEDY = {"temperature": 0.0}
SEEDED = {"temperature": 1.0, "seed": 7}


def prompts_of(lab: TreeLab, count: int = 8, padding: int = 0) -> list[list[int]]:
    """Different prompts of different lengths; each begins with its own number and `padding` items."""
    prompts = []
    for number in range(count):
        items = "".join(f" Item {item} of {number} costs {item * 7 + number} coins." for item in range(padding))
        prompts.append(lab.engine.tokenizer.encode(f"{number}.{items} {SUBJECTS[number % 8]}"))
    return prompts


async def asked_twice(lab: TreeLab, prompts: list[list[int]], samplings: list[dict[str, Any]]) -> list[Answer]:
    """The replies with trees, which are those without."""
    lab.know([])
    await lab.forget()
    plain = await lab.ask_all(prompts, samplings)
    before = lab.tally()["trees"]
    lab.know(plain)
    await lab.forget()
    trees = await lab.ask_all(prompts, samplings)
    assert [answer.token_ids for answer in trees] == [answer.token_ids for answer in plain]
    assert [answer.text for answer in trees] == [answer.text for answer in plain]
    assert lab.tally()["trees"] > before
    return trees


def grown(before: dict[str, float], after: dict[str, float], name: str) -> float:
    return after[name] - before[name]


async def test_alone(lab: TreeLab) -> None:
    for prompt in prompts_of(lab, 4):
        await asked_twice(lab, [prompt], [GREEDY])


async def test_eight_at_a_time_with_prompts_in_chunks_and_paths_beside_the_principal_chain(lab: TreeLab) -> None:
    before = lab.tally()
    prompts = [*prompts_of(lab, 4), *prompts_of(lab, 8, padding=12)[4:]]
    await asked_twice(lab, prompts, [GREEDY] * 8)
    after = lab.tally()
    trees = grown(before, after, "trees")
    assert grown(before, after, "side_paths") > trees / 4
    assert grown(before, after, "moves") > trees / 4
    assert grown(before, after, "mixed_steps") > 0
    assert grown(before, after, "tokens") > 1.5 * trees
    assert after["draft_failures"] == 0


async def test_on_hits_of_the_prefix_cache(lab: TreeLab) -> None:
    prompts = prompts_of(lab, padding=6)
    first = await asked_twice(lab, prompts, [GREEDY] * 8)
    again = await lab.ask_all(prompts, [GREEDY] * 8)
    assert all(answer.cached >= 32 for answer in again)
    assert [answer.token_ids for answer in again] == [answer.token_ids for answer in first]
    # A turn that follows reuses blocks which trees have filled.
    lab.know([])
    longer = [answer.prompt + answer.token_ids for answer in first]
    on_cache = await lab.ask_all(longer, [GREEDY] * 8)
    assert all(answer.cached > len(answer.prompt) - 64 for answer in on_cache)
    await lab.forget()
    afresh = await lab.ask_all(longer, [GREEDY] * 8)
    assert [answer.token_ids for answer in on_cache] == [answer.token_ids for answer in afresh]


async def test_requests_that_are_preempted(lab: TreeLab) -> None:
    prompts = prompts_of(lab, padding=14)
    before = lab.preemptions()
    await asked_twice(lab, prompts, [GREEDY | {"max_tokens": 90}] * 8)
    assert lab.preemptions() >= before + 2


async def test_up_to_the_last_token_that_the_model_can_hold(lab: TreeLab) -> None:
    room = 7
    whole = lab.engine.tokenizer.encode("".join(f" Item {item} costs {item * 7} coins." for item in range(60)))
    prompts = [whole[start : start + 512 - room - start] for start in range(3)]
    answers = await asked_twice(lab, prompts, [GREEDY] * 3)
    assert [len(answer.token_ids) for answer in answers] == [room, room + 1, room + 2]


@pytest.mark.parametrize(
    "sampling",
    [
        SEEDED,
        SEEDED | {"temperature": 0.7, "top_p": 0.9},
        SEEDED | {"temperature": 1.5, "top_k": 20},
        SEEDED | {"presence_penalty": 0.6, "frequency_penalty": 0.4, "repetition_penalty": 1.2},
        GREEDY | {"repetition_penalty": 1.3},
        GREEDY | {"frequency_penalty": 1.0},
    ],
    ids=lambda sampling: "-".join(sampling),
)
async def test_sampled_and_penalised(lab: TreeLab, sampling: dict[str, Any]) -> None:
    await asked_twice(lab, prompts_of(lab), [sampling] * 8)


async def test_different_requests_in_one_batch(lab: TreeLab) -> None:
    samplings = [GREEDY, SEEDED, GREEDY | {"logprobs": 2}, SEEDED | {"top_k": 5}] * 2
    await asked_twice(lab, prompts_of(lab), samplings)


async def test_logprobs(lab: TreeLab) -> None:
    prompts = prompts_of(lab, 4)
    lab.know([])
    plain = await lab.ask_all(prompts, [GREEDY | {"logprobs": 3}] * 4)
    lab.know(plain)
    trees = await lab.ask_all(prompts, [GREEDY | {"logprobs": 3}] * 4)
    for before, after in zip(plain, trees, strict=True):
        assert before.token_ids == after.token_ids
        assert len(after.logprobs) == len(after.token_ids)
        for token, one, other in zip(after.token_ids, before.logprobs, after.logprobs, strict=True):
            assert token in other
            assert one == pytest.approx(other, abs=1e-3)


async def test_bad_words_that_the_reply_would_have_said(lab: TreeLab) -> None:
    prompts = prompts_of(lab)
    lab.know([])
    free = await lab.ask_all(prompts, [GREEDY] * 8)
    said = [lab.engine.tokenizer.decode(answer.token_ids[5:7]).strip() for answer in free]
    samplings = [GREEDY | {"bad_words": [words]} if words else GREEDY for words in said]
    bound = await asked_twice(lab, prompts, samplings)
    assert [a.token_ids for a in bound] != [a.token_ids for a in free]


async def test_min_tokens_that_bind(lab: TreeLab) -> None:
    prompts = prompts_of(lab)
    lab.know([])
    free = await lab.ask_all(prompts, [GREEDY] * 8)
    stops = [answer.token_ids[index] for index, answer in enumerate(free)]
    ended = await lab.ask_all(prompts, [GREEDY | {"stop_token_ids": [stop]} for stop in stops])
    assert max(len(answer.token_ids) for answer in ended) <= 8
    # Within a tree the ban is lifted after some of the path: once at the third token, once at the twelfth.
    for least in (3, 12):
        samplings = [GREEDY | {"stop_token_ids": [stop], "min_tokens": least} for stop in stops]
        bound = await asked_twice(lab, prompts, samplings)
        assert all(len(answer.token_ids) >= least for answer in bound)
        assert [a.token_ids for a in bound] != [a.token_ids for a in ended]


async def test_stops_inside_a_path(lab: TreeLab) -> None:
    prompts = prompts_of(lab)
    lab.know([])
    free = await lab.ask_all(prompts, [GREEDY] * 8)
    for place in (2, 5, 9):
        tokens = [GREEDY | {"stop_token_ids": [answer.token_ids[place]]} for answer in free]
        strings = [
            GREEDY | {"stop": [text]} if (text := lab.engine.tokenizer.decode([answer.token_ids[place]])) else GREEDY
            for answer in free
        ]
        for samplings in (tokens, strings):
            lab.know([])
            plain = await lab.ask_all(prompts, samplings)
            # The oracle drafts on behind the stop, so that the stop lies inside a path.
            lab.know(free)
            trees = await lab.ask_all(prompts, samplings)
            assert [a.text for a in trees] == [a.text for a in plain]
            assert [a.token_ids for a in trees] == [a.token_ids for a in plain]


async def test_a_drafter_that_fails_costs_drafts_and_no_request(lab: TreeLab) -> None:
    prompts = prompts_of(lab, 4)
    lab.know([])
    plain = await lab.ask_all(prompts, [GREEDY] * 4)
    failures = lab.tally()["draft_failures"]
    lab.know(plain, fail=True)
    trees = await lab.ask_all(prompts, [GREEDY] * 4)
    assert [a.token_ids for a in trees] == [a.token_ids for a in plain]
    assert lab.tally()["draft_failures"] > failures
    lab.know([])


async def test_structured_output_gets_no_drafts_beside_others_that_do(lab: TreeLab) -> None:
    from vllm.sampling_params import StructuredOutputsParams

    choices = ["the quick brown fox jumps", "over the lazy dog and on"]
    samplings = [
        GREEDY | {"structured_outputs": StructuredOutputsParams(choice=choices)} if row % 2 else GREEDY
        for row in range(8)
    ]
    answers = await asked_twice(lab, prompts_of(lab), samplings)
    assert {answer.text for answer in answers[1::2]} <= set(choices)


async def test_nothing_is_kept_of_requests_that_have_ended(lab: TreeLab) -> None:
    await asked_twice(lab, prompts_of(lab), [GREEDY] * 8)
    lab.know([])
    await lab.ask(prompts_of(lab, 1)[0], max_tokens=3)
    assert lab.tally()["mirrors"] == 0
