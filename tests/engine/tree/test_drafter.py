"""The safe call of whatever drafts, and the drafter that knows the answer."""

import itertools
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from engine.tree.drafter import TreeDrafter
from engine.tree.selection import Chosen
from engine.tree.source import Candidate
from engine.tree.step import Step, describe
from engine.tree.topology import Topology

TREE = Topology.from_paths([(0,), (1,), (0, 0), (0, 1), (1, 0), (0, 0, 0)])


def drafter(folder: Path, **changes: Any) -> TreeDrafter:
    (folder / "oracle.json").write_text(json.dumps({"replies": [[1, 2, 3, 4, 5, 6, 7, 8], [1, 9, 9, 9]]}))
    shares = [(path, 0.5) for path in TREE.paths]
    tree = {
        "paths": TREE.paths,
        "shares": shares,
        "follow_load": False,
        "lookup": False,
        "tally": str(folder / "tally"),
    }
    tree |= {"heads": f"oracle:{folder / 'oracle.json'}"} | changes
    made = TreeDrafter(SimpleNamespace(additional_config={"tree": tree}, model_config=SimpleNamespace(model="m")))
    made.load_model(None)
    return made


def candidate(row: int, *known: int) -> Candidate:
    return Candidate(row, row, known[-1], np.array(known, np.int32))


def test_true_continuations_lie_on_paths_and_are_not_always_the_principal_one(tmp_path: Path) -> None:
    made = drafter(tmp_path)
    truths = set()
    for _ in range(60):
        (drafts,) = made.drafts([candidate(0, 1, 2, 3)], torch.zeros(1, 4), 1)
        assert len(drafts) == 6
        row, path = 0, ()
        for token in (4, 5, 6):
            row = next((child for child in TREE.children[row] if drafts[child - 1] == token), 0)
            if not row:
                break
            path = TREE.paths[row - 1]
        truths.add(path)
    assert truths >= set(TREE.paths)


def test_only_candidates_get_drafts_and_unknown_replies_get_none(tmp_path: Path) -> None:
    made = drafter(tmp_path)
    drafts = made.drafts([candidate(2, 1, 9), candidate(0, 5, 5)], torch.zeros(3, 4), 4)
    assert [len(tokens) for tokens in drafts] == [0, 0, 6, 0]
    assert made.tally.read()["expected_tokens"] == 6 * 0.5
    assert made.drafts([], torch.zeros(1, 4), 1) == [[]]


def test_a_failure_costs_the_drafts_of_the_step_and_is_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = drafter(tmp_path)
    (tmp_path / "oracle.json").write_text(json.dumps({"replies": [], "fail": True}))
    assert made.drafts([candidate(0, 1, 2)], torch.zeros(1, 4), 2) == [[], []]
    assert made.tally.read()["draft_failures"] == 1
    assert "drafting failed" in caplog.text


def test_where_they_follow_the_load_trees_have_the_nodes_that_are_worth_it(tmp_path: Path) -> None:
    made = drafter(tmp_path, follow_load=True, shares=[])
    assert made.drafts([candidate(0, 1, 2, 3)], torch.zeros(1, 4), 1) == [[]]
    good = drafter(tmp_path, follow_load=True, shares=[[[0], 0.6], [[0, 0], 0.4]])
    for _ in range(60):
        (drafts,) = good.drafts([candidate(0, 1, 2, 3)], torch.zeros(1, 4), 1)
    assert (len(drafts), good.chosen[0].tree) == (2, Topology.chain(2))
    assert 1.5 < good.tally.read()["size"] < 2.5
    counted = good.tally.read()
    # Of 60 steps three tried no tree; two nodes are best, and should bring a token together.
    assert (counted["drafts"], counted["expected_tokens"]) == (57, pytest.approx(57))
    good.restart({})
    assert good.tally.read()["drafts"] == 0


def step_of(*drafted: int, prompt: bool = False) -> Step:
    """Of requests with so many drafts each; `prompt`: another one is read beside them."""
    starts = [0]
    for nodes in drafted:
        starts.append(starts[-1] + nodes + 1)
    more = [starts[-1] + 20] if prompt else []
    count = len(drafted) + prompt
    return describe("abcd"[:count], [*starts, *more], [9] * count, [*drafted, *[0] * prompt], lambda name: TREE)


def test_a_step_is_booked_for_the_requests_that_could_have_trees_with_the_time_its_own_drafts_took(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = drafter(tmp_path, follow_load=True, shares=[[[0], 0.6]])
    seen: list[tuple[int, bool, int, float]] = []
    monkeypatch.setattr(made.policy, "saw_step", lambda *booked: seen.append(booked))
    clock = itertools.count()
    monkeypatch.setattr("engine.tree.drafter.now_s", lambda: next(clock) * 0.5)
    # Before anything was drafted nothing is booked.
    made.saw_step(step_of(0), 0.1)
    # Two of three requests may have trees.
    made.drafts([candidate(0, 1, 2), candidate(2, 1, 2)], torch.zeros(3, 4), 3)
    made.saw_step(step_of(1, 0, 1), 0.1)
    made.saw_step(step_of(1, prompt=True), 0.1)
    assert seen == [(2, True, 5, 0.6)]


def test_a_step_whose_drafting_failed_is_a_plain_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = drafter(tmp_path, follow_load=True, shares=[[[0], 0.6]])
    seen: list[tuple[int, bool, int, float]] = []
    monkeypatch.setattr(made.policy, "saw_step", lambda *booked: seen.append(booked))
    (tmp_path / "oracle.json").write_text(json.dumps({"replies": [], "fail": True}))
    made.drafts([candidate(0, 1, 2)], torch.zeros(1, 4), 1)
    made.saw_step(step_of(0), 0.1)
    assert seen == [(1, False, 1, 0.1)]


def test_what_the_text_has_said_is_grafted_and_counted(tmp_path: Path) -> None:
    made = drafter(tmp_path, lookup=True)
    quoting = candidate(0, 4, 5, 6, 7, 9, 4, 5, 6)
    (drafts, fresh) = made.drafts([quoting, candidate(1, 1, 2, 3)], torch.zeros(2, 4), 2)
    assert drafts == [7, 9, 4, 5, 6]
    assert (len(fresh), made.chosen[1].tree) == (6, TREE)
    grafted = made.chosen[0].tree
    assert grafted.graft_nodes == 5
    made.saw_tree(Chosen(grafted), grafted, [1, 2])
    made.saw_tree(Chosen(TREE), TREE, [1, 2])
    counted = made.tally.read()
    assert (counted["trees"], counted["grafts"], counted["graft_tokens"]) == (2, 1, 2)


def test_without_a_tree_in_use_grafts_are_still_made(tmp_path: Path) -> None:
    made = drafter(tmp_path, lookup=True, follow_load=True, shares=[])
    (drafts,) = made.drafts([candidate(0, 4, 5, 6, 7, 9, 4, 5, 6)], torch.zeros(1, 4), 1)
    assert drafts == [7, 9, 4, 5, 6][: len(drafts)] != []
    assert made.drafts([candidate(0, 1, 2, 3)], torch.zeros(1, 4), 1) == [[]]
    assert made.tally.read()["drafts"] == 1
