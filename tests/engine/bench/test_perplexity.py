"""The figures of the bench of perplexity, and which replies it takes."""

import argparse
import math
from pathlib import Path

import pytest

from engine.bench.perplexity import add_arguments, arms_of, chosen
from engine.bench.perplexity_figures import Score, agreement, document, perplexity, ratio, table
from engine.heads.replies import RepliesError, Reply, write

TWO = [Score(10 * math.log(2), 9, 10, True), Score(30 * math.log(4), 12, 30, False)]


def test_perplexity_counts_every_token_the_same() -> None:
    assert perplexity(TWO) == pytest.approx(2 ** ((10 + 60) / 40))
    assert perplexity([Score(0.0, 3, 3, True)]) == 1.0


def test_agreement_is_of_greedy_replies_only() -> None:
    assert agreement(TWO) == 0.9
    assert agreement(TWO[1:]) is None


def test_the_same_loss_has_the_ratio_one_and_no_doubt() -> None:
    assert ratio(TWO, TWO, seed=0) == (1.0, 1.0, 1.0)


def test_a_ratio_is_that_of_the_perplexities_and_lies_in_its_interval() -> None:
    base = [Score(tokens * 1.0, 1, tokens, True) for tokens in range(5, 45)]
    worse = [
        Score(score.loss + score.tokens * 0.01 + index % 3, 1, score.tokens, True) for index, score in enumerate(base)
    ]
    value, low, high = ratio(worse, base, seed=1)
    assert value == pytest.approx(perplexity(worse) / perplexity(base))
    assert 1 < low < value < high
    assert ratio(worse, base, seed=1) == (value, low, high)


def test_scores_of_other_replies_are_refused() -> None:
    with pytest.raises(ValueError, match="same replies"):
        ratio(TWO, TWO[:1], seed=0)
    with pytest.raises(ValueError, match="cannot be the most likely"):
        Score(1.0, 4, 3, True)


def test_the_document_compares_with_the_first_arm_and_becomes_a_table() -> None:
    worse = [Score(score.loss * 1.1, score.first, score.tokens, score.greedy) for score in TWO]
    found = document({"none": TWO, "int8": worse}, seed=0)
    assert (found["replies"], found["tokens"]) == (2, 40)
    assert [row["ratio"] for row in found["arms"]] == [
        1.0,
        pytest.approx(found["arms"][1]["perplexity"] / 3.3636, abs=1e-3),
    ]
    assert [line.split()[0] for line in table(found).splitlines()[2:]] == ["none", "int8"]


def test_replies_are_taken_evenly_and_without_loops(tmp_path: Path) -> None:
    file = tmp_path / "replies.jsonl.gz"
    replies = [Reply((1,), (number, 7, 8), 0.0, f"topic {number // 10}") for number in range(40)]
    looping = Reply((1,), (5,) * 40, 0.0, "loops")
    write(file, [*replies, looping], {})
    assert [reply.topic for reply in chosen(file, 4)] == [f"topic {number}" for number in range(4)]
    assert chosen(file, 1000) == replies
    write(file, [looping], {})
    with pytest.raises(RepliesError, match="no reply without repetition"):
        chosen(file, 4)
    with pytest.raises(ValueError, match="--count"):
        chosen(file, 0)


def test_arms_are_weights_of_all_kinds_and_then_quantizations() -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    arms = arms_of(parser.parse_args(["--cpu-weights", "float32", "float16"]))
    assert list(arms) == ["weights float32", "weights float16", "quantization int8"]
    assert [(arm.cpu_weights, arm.quantization) for arm in arms.values()] == [
        ("float32", None),
        ("float16", None),
        ("auto", "int8"),
    ]
    with pytest.raises(ValueError, match="cpu_weights"):
        arms_of(parser.parse_args(["--cpu-weights", "int3"]))


def test_the_replies_kept_with_the_heads_are_there() -> None:
    assert len(chosen(None, 50)) == 50
