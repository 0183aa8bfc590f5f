"""`voicepace bench speculation` with scripted engines in virtual time."""

from dataclasses import replace

import pytest

from engine.api import Engine
from engine.bench.speculation_report import document, judged_tree, kept_by_depth, split_ms, table
from engine.bench.speculation_run import Cell, Outcome, Run, Workload
from engine.fake import Script
from engine.options import EngineOptions
from tests.engine.bench.published_host import ScriptedHost
from tests.virtual_time import run_virtual

# The arms' scripts by their speculation: 40 ms a token; 50 ms for 1.25 tokens; 50 ms for 2.5 tokens.
SCRIPTS = {
    "none": Script(first_token_s=0.08, step_time_s=0.040),
    "medusa": Script(trace=((0.1, 1), (0.05, 1), (0.05, 1), (0.05, 1), (0.05, 2))),
    "medusa_tree": Script(trace=((0.1, 1), (0.05, 2), (0.05, 3))),
    "ngram": Script(),
}
SMALL = Workload(kinds=("code",), temperatures=(0.0, 0.7), concurrency=(1, 4), prompts=4, reply_tokens=6, rounds=1)
ARMS = {"none": "none", "chain": "medusa", "tree16": "medusa_tree"}


class TallyingHost(ScriptedHost):
    """Its trees' engine counts steps and drafting, a millisecond each."""

    def make(self, options: EngineOptions) -> Engine:
        engine = super().make(options)
        if options.speculation == "medusa_tree":
            made = self.made["medusa_tree"]
            engine.tree_tally = lambda: {  # type: ignore[attr-defined]
                "tree_steps": 2.0 * len(made.requests),
                "draft_s": 0.002 * len(made.requests),
            }
        return engine


def arms() -> dict[str, EngineOptions]:
    return {
        name: EngineOptions.model_construct(**(EngineOptions().model_dump() | {"speculation": speculation}))
        for name, speculation in ARMS.items()
    }


def measured(host: ScriptedHost) -> Outcome:
    return run_virtual(Run(host, SMALL).measure(arms()))


def test_all_engines_are_resident_and_blocks_run_forth_and_back() -> None:
    host = TallyingHost(SCRIPTS)
    outcome = measured(host)
    assert host.most_resident == 3
    first = [each.block.arm for each in outcome.measured[:6]]
    assert first == ["none", "chain", "tree16", "tree16", "chain", "none"]
    assert [each.block.pair for each in outcome.measured[:6]] == [0, 0, 0, 1, 1, 1]
    assert {each.cell for each in outcome.measured} == set(SMALL.cells())
    assert not host.started


def test_ratios_are_those_of_the_scripts() -> None:
    found = document(measured(TallyingHost(SCRIPTS)), SMALL, {})
    one = found["speedup"]["1"]
    # 40 ms a token against 5 tokens in 2 × 50 ms, and against 5 in 4 × 50 ms.
    assert one["tree_over_plain"] == pytest.approx(2.0)
    assert one["chain_over_plain"] == pytest.approx(1.0)
    assert one["tree_over_chain"] == pytest.approx(2.0)
    assert one["step_ratio_16"] == pytest.approx(50 / 40)
    assert one["ci95"]["tree_over_plain"] == pytest.approx([2.0, 2.0])
    assert one["tree"] == "tree16"
    tree = next(row for row in found["rows"] if row["arm"] == "tree16")
    assert tree["tokens_per_step"] == pytest.approx(2.5)
    assert tree["kept_by_depth"] == [1.0, 0.5]
    assert tree["split_ms"] == {"heads": 1.0}
    text = table(found, "this machine")
    assert "tree16" in text
    assert "heads 1.0" in text


def test_the_tree_that_is_judged_is_the_one_that_is_served() -> None:
    outcome = measured(TallyingHost(SCRIPTS))
    cell = next(SMALL.cells())
    assert judged_tree(outcome.measured, cell, 0) == "tree16"
    renamed = [
        replace(each, block=replace(each.block, arm="tree")) for each in outcome.measured if each.block.arm == "chain"
    ]
    assert judged_tree([*outcome.measured, *renamed], cell, 0) == "tree"
    assert judged_tree([each for each in outcome.measured if each.block.arm != "tree16"], cell, 0) is None


def test_sampled_replies_have_the_same_seeds_in_every_arm() -> None:
    host = TallyingHost(SCRIPTS)
    measured(host)
    seeds = []
    for name in ARMS.values():
        sampled = [request.sampling for request in host.made[name].requests if request.sampling.temperature]
        assert {sampling.temperature for sampling in sampled} == {0.7}
        seeds.append(sorted({sampling.seed for sampling in sampled if sampling.seed is not None}))
    assert len(seeds[0]) == 4
    assert seeds[0] == seeds[1] == seeds[2]


def test_an_arm_that_cannot_start_is_named_and_the_others_run() -> None:
    outcome = measured(TallyingHost(SCRIPTS, broken=frozenset({"medusa"})))
    assert outcome.not_run == {"chain": "engine: no medusa here"}
    found = document(outcome, SMALL, {})
    assert found["speedup"]["1"]["tree_over_chain"] is None
    assert "not run: chain" in table(found, "")


def test_nothing_is_divided_where_nothing_was_measured() -> None:
    assert kept_by_depth([]) == []
    assert split_ms([]) == {}
    assert split_ms([{"tree_steps": 0.0}]) == {}
    empty = document(Outcome(), SMALL, {})
    assert empty["speedup"]["1"]["step_ratio_16"] is None
    assert Cell("code", 0.0, 1) in set(SMALL.cells())
