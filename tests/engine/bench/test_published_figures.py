import pytest

from engine.bench.published_figures import (
    Block,
    ReplyTrace,
    acceptance_by_depth,
    figures,
    reference_texts,
    tit_ratio,
)


def reply(prompt: str, *bursts: tuple[float, int], ttft_s: float | None = 0.1, text: str = "text") -> ReplyTrace:
    return ReplyTrace(prompt, ttft_s, bursts, (), text, prompt_tokens=20, cached_tokens=4)


def block(arm: str, *replies: ReplyTrace, pair: int = 0, wall_s: float = 1.0, concurrency: int = 1) -> Block:
    return Block(arm, "code", concurrency, pair, "ngram", wall_s, replies)


def test_tit_is_the_step_gap_shared_among_the_tokens_of_the_step() -> None:
    found = figures([block("ngram", reply("a", (5.0, 1), (5.06, 3), (5.10, 1)), wall_s=0.5)], {})
    # Three samples of 20 ms and one of 40; the first burst came from the prompt.
    assert found.tit_ms == pytest.approx(25)
    assert found.tit_p99_ms == pytest.approx(40)
    assert found.step_ms == pytest.approx(50)
    assert found.tokens_per_step == 2
    assert (found.tokens, found.prompt_tokens, found.cached_tokens) == (5, 20, 4)
    assert found.tokens_per_second == pytest.approx(10)


def test_the_99th_percentile_is_the_nearest_rank_over_tokens() -> None:
    slow_last = [(0.01 * step, 1) for step in range(99)] + [(0.98 + 0.5, 1)]
    one_of_99 = figures([block("none", reply("a", *slow_last))], {})
    assert one_of_99.tit_p99_ms == pytest.approx(500)
    quick = [(0.01 * step, 1) for step in range(102)]
    one_of_200 = figures([block("none", reply("a", *slow_last), reply("b", *quick))], {})
    assert one_of_200.tit_p99_ms == pytest.approx(10)


def test_time_to_first_token_leaves_out_replies_without_one() -> None:
    found = figures(
        [block("none", reply("a", (1, 1), ttft_s=0.1), reply("b", (1, 1), ttft_s=0.3), reply("c", ttft_s=None))], {}
    )
    assert found.ttft_ms == pytest.approx(200)
    assert found.ttft_p99_ms == pytest.approx(300)
    assert found.tit_ms is None
    assert found.tokens_per_step is None


def test_blocks_of_an_arm_are_added_up() -> None:
    found = figures(
        [block("none", reply("a", (1, 1), (1.04, 1)), wall_s=2), block("none", reply("a", (9, 1)), wall_s=3)], {}
    )
    assert (found.blocks, found.replies, found.tokens, found.time_s) == (2, 2, 3, 5)


def test_acceptance_at_a_depth_counts_only_steps_that_drafted_so_far() -> None:
    assert acceptance_by_depth([(3, 3), (3, 1), (1, 1), (2, 0)]) == pytest.approx((3 / 4, 1 / 3, 1 / 2))
    assert acceptance_by_depth([]) == ()


def test_differing_replies_are_counted_against_plain_at_the_lowest_concurrency() -> None:
    plain = [
        block("none", reply("a", text="other"), reply("b", text="two"), concurrency=4),
        block("none", reply("a", text="one"), reply("b", text="two"), concurrency=1),
    ]
    references = reference_texts([*plain, block("ngram", reply("a", text="x"))], "none")
    assert references == {"a": "one", "b": "two"}
    assert figures(plain[:1], references).differing == 1
    assert figures(plain[1:], references).differing == 0
    assert figures([block("ngram", reply("a", text="one"), reply("b", text="tw"))], references).differing == 1


def test_a_constant_ratio_has_an_interval_without_width() -> None:
    plain = [block("none", reply("a", (0, 1), (0.04, 1)), reply("b", (0, 1), (0.08, 2)), pair=n) for n in (0, 1)]
    arm = [block("ngram", reply("a", (0, 1), (0.02, 1)), reply("b", (0, 1), (0.06, 3)), pair=n) for n in (0, 1)]
    found = tit_ratio(plain, arm, seed=1, resamples=50)
    assert found is not None
    assert (found.value, found.low, found.high) == pytest.approx((2, 2, 2))


def test_the_interval_spans_prompts_and_pairs() -> None:
    plain = [block("none", reply("a", (0, 1), (0.04, 1)), reply("b", (0, 1), (0.04, 1)), pair=n) for n in (0, 1)]
    arm = [
        block("ngram", reply("a", (0, 1), (0.01, 1)), reply("b", (0, 1), (0.04, 1)), pair=0),
        block("ngram", reply("a", (0, 1), (0.02, 1)), reply("b", (0, 1), (0.04, 1)), pair=1),
    ]
    found = tit_ratio(plain, arm, seed=1)
    assert found is not None
    assert found.value == pytest.approx(0.16 / 0.11)
    # All four draws are "b" in 1 of 16; all four are "a" in 1 of 16 too, in the quick pair twice in 1 of 64 (1.6 %) and
    # in both pairs in 1 of 32, which is where the 97.5th percentile lies.
    assert found.low == pytest.approx(1)
    assert found.high == pytest.approx(0.16 / 0.06)
    assert tit_ratio(plain, arm, seed=1) == found


def test_the_interval_spans_pairs_that_differ_as_a_whole() -> None:
    plain = [block("none", reply("a", (0, 1), (0.04, 1)), pair=n) for n in (0, 1)]
    arm = [block("ngram", reply("a", (0, 1), (seconds, 1)), pair=n) for n, seconds in enumerate((0.02, 0.04))]
    found = tit_ratio(plain, arm, seed=1)
    assert found is not None
    assert (found.low, found.value, found.high) == pytest.approx((1, 0.08 / 0.06, 2))


def test_prompts_are_compared_with_themselves_in_the_same_pair() -> None:
    plain = [
        block("none", reply("a", (0, 1), (0.04, 1)), reply("only plain", (0, 1), (9.0, 1)), pair=0),
        block("none", reply("a", (0, 1), (9.0, 1)), pair=7),
    ]
    arm = [block("ngram", reply("a", (0, 1), (0.02, 1)), reply("only arm", (0, 1), (9.0, 1)), pair=0)]
    found = tit_ratio(plain, arm, seed=1, resamples=20)
    assert found is not None
    assert (found.value, found.low, found.high) == pytest.approx((2, 2, 2))


def test_there_is_no_ratio_without_a_step_gap_on_both_sides() -> None:
    plain = [block("none", reply("a", (0, 1), (0.04, 1)))]
    assert tit_ratio(plain, [block("ngram", reply("a", (0, 1)))], seed=1) is None
    assert tit_ratio([], plain, seed=1) is None
