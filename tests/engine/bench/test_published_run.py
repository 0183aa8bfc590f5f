from collections import Counter
from dataclasses import replace

import pytest

from engine.api import EngineError
from engine.bench.published_arms import Arm
from engine.bench.published_figures import figures
from engine.bench.published_run import Outcome, Run, Workload
from engine.fake import Script
from engine.options import EngineOptions
from tests.engine.bench.published_host import MEBIBYTE, SCRIPTS, ScriptedHost
from tests.virtual_time import run_virtual

SMALL = Workload(kinds=("code",), concurrency=(1, 4), prompts=8, reply_tokens=11)


def arm(name: str) -> Arm:
    return Arm(name, EngineOptions(speculation=name, draft_model="small" if name == "draft_model" else None))


def measure(host: ScriptedHost, workload: Workload = SMALL, names: tuple[str, ...] = ("none", "ngram")) -> Outcome:
    return run_virtual(Run(host, workload).measure([arm(name) for name in names]))


def blocks_of(outcome: Outcome, name: str, concurrency: int) -> list:
    return [block for block in outcome.blocks if (block.arm, block.concurrency) == (name, concurrency)]


def test_a_known_trace_gives_exact_figures() -> None:
    outcome = measure(ScriptedHost())
    found = figures(blocks_of(outcome, "ngram", 1), {})
    assert (found.replies, found.tokens) == (16, 16 * 11)
    assert found.ttft_ms == pytest.approx(100)
    assert found.tit_ms == pytest.approx(20)
    assert found.tit_p99_ms == pytest.approx(50)
    assert found.tokens_per_step == pytest.approx(2.5)
    assert found.time_s == pytest.approx(16 * 0.3)
    assert found.tokens_per_second == pytest.approx(11 / 0.3)
    assert found.acceptance_by_depth == pytest.approx((1, 2 / 3, 1 / 3))
    plain = figures(blocks_of(outcome, "none", 1), {})
    assert (plain.tit_ms, plain.ttft_ms, plain.tokens_per_step) == pytest.approx((40, 80, 1))
    assert plain.acceptance_by_depth == ()


def test_callers_share_the_prompts_of_a_block() -> None:
    host = ScriptedHost()
    outcome = measure(host)
    assert host.made["ngram"].most_running == 4
    assert figures(blocks_of(outcome, "ngram", 4), {}).time_s == pytest.approx(2 * 2 * 0.3)
    for block in outcome.blocks:
        assert Counter(reply.prompt for reply in block.replies) == {f"code-{n}.1": 1 for n in range(1, 9)}


def test_blocks_take_turns_a_b_b_a_and_start_with_an_empty_cache() -> None:
    host = ScriptedHost()
    outcome = measure(host, replace(SMALL, concurrency=(1,), rounds=2))
    order = [block.arm for block in outcome.blocks]
    assert order == ["none", "ngram", "ngram", "none"] * 2
    assert [block.pair for block in outcome.blocks] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert host.forgotten == order


def test_both_blocks_of_a_pair_ask_in_the_same_order_and_pairs_in_different_ones() -> None:
    outcome = measure(ScriptedHost(), replace(SMALL, concurrency=(1,)))
    order = [[reply.prompt for reply in block.replies] for block in outcome.blocks]
    assert order[0] == order[1] != order[2] == order[3]
    again = measure(ScriptedHost(), replace(SMALL, concurrency=(1,)))
    assert again.blocks == outcome.blocks


def test_two_engines_at_most_are_resident_and_none_is_left() -> None:
    host = ScriptedHost()
    outcome = measure(host, names=("none", "ngram", "draft_model"))
    assert host.most_resident == 2
    assert not host.started
    assert {block.group for block in outcome.blocks if block.arm == "none"} == {"ngram", "draft_model"}


@pytest.mark.parametrize("resident_pairs", [True, False])
def test_memory_is_compared_after_equal_work(resident_pairs: bool) -> None:
    outcome = measure(ScriptedHost(), replace(SMALL, resident_pairs=resident_pairs), ("none", "draft_model", "ngram"))
    assert outcome.memory_bytes["ngram"] - outcome.memory_bytes["none"] == 20 * MEBIBYTE
    assert "draft_model" not in outcome.memory_bytes


def test_a_reply_that_is_broken_off_is_no_figure() -> None:
    host = ScriptedHost()
    host.broken_off = frozenset({"ngram"})
    outcome = measure(host)
    assert outcome.not_run == {"ngram": "a reply was broken off (error)"}


def test_the_blocks_announced_are_those_run() -> None:
    for names in (("none",), ("none", "ngram", "draft_model")):
        for resident_pairs in (True, False):
            lines: list[str] = []
            run = Run(ScriptedHost(), replace(SMALL, resident_pairs=resident_pairs), lines.append)
            outcome = run_virtual(run.measure([arm(name) for name in names]))
            assert lines[0] == f"{len(outcome.blocks)} blocks of 8 dialogues"


def test_one_engine_at_a_time_if_asked() -> None:
    host = ScriptedHost()
    outcome = measure(host, replace(SMALL, resident_pairs=False), ("none", "ngram", "draft_model"))
    assert host.most_resident == 1
    assert [block.arm for block in outcome.blocks] == ["none"] * 4 + ["ngram"] * 4 + ["draft_model"] * 4


def test_plain_decoding_alone_is_measured_too() -> None:
    assert [block.arm for block in measure(ScriptedHost(), names=("none",)).blocks] == ["none"] * 4


def test_plain_decoding_is_measured_where_no_arm_starts() -> None:
    outcome = measure(ScriptedHost(broken=frozenset({"ngram"})))
    assert [block.arm for block in outcome.blocks] == ["none"] * 4


def test_turns_of_a_dialogue_follow_each_other() -> None:
    host = ScriptedHost()
    outcome = measure(host, Workload(kinds=("multi_turn",), concurrency=(2,), prompts=2, reply_tokens=11))
    for block in outcome.blocks:
        prompts = [reply.prompt for reply in block.replies]
        assert len(prompts) == 6
        for number in (1, 2):
            own = [prompt for prompt in prompts if prompt.startswith(f"multi_turn-{number}.")]
            assert own == [f"multi_turn-{number}.{turn}" for turn in (1, 2, 3)]
    assert all(request.sampling.temperature == 0 for request in host.made["none"].requests)


def test_an_arm_that_does_not_start_is_noted_and_the_next_one_runs() -> None:
    outcome = measure(ScriptedHost(broken=frozenset({"ngram"})), names=("none", "ngram", "draft_model"))
    assert outcome.not_run == {"ngram": "engine: no ngram here"}
    assert {block.arm for block in outcome.blocks} == {"none", "draft_model"}


def test_an_arm_that_dies_is_noted_and_the_next_one_runs() -> None:
    host = ScriptedHost({**SCRIPTS, "ngram": Script(die_after_bursts=6)})
    outcome = measure(host, names=("none", "ngram", "draft_model"))
    assert outcome.not_run == {"ngram": "the scripted engine has died"}
    assert blocks_of(outcome, "draft_model", 4)
    assert not host.started


@pytest.mark.parametrize("names", [("none", "ngram", "draft_model"), ("none",)])
def test_without_plain_decoding_there_is_no_result(names: tuple[str, ...]) -> None:
    host = ScriptedHost({**SCRIPTS, "none": Script(die_after_bursts=6)})
    with pytest.raises(EngineError, match="died"):
        measure(host, names=names)
    assert not host.started


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        ({"kinds": ("poems",)}, "poems"),
        ({"kinds": ()}, "kinds"),
        ({"concurrency": ()}, "concurrency"),
        ({"concurrency": (0, 1)}, "concurrency"),
        ({"concurrency": (1, 1)}, "concurrency"),
        ({"prompts": 4}, "prompts"),
        ({"prompts": 9}, "prompts"),
        ({"rounds": 0}, "rounds"),
    ],
)
def test_a_senseless_workload_is_refused(bad: dict[str, object], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        Workload(**bad)
