"""What the runner tells of a step that vLLM has prepared, without a model."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from vllm.v1.worker.gpu_model_runner import GPUModelRunner

from engine.tree.grafting import NOTHING
from engine.tree.runner import TreeRunner
from engine.tree.selection import Chosen
from engine.tree.topology import Topology

TREE = Topology.from_paths([(0,), (1,), (0, 0)])


def prepared(monkeypatch: pytest.MonkeyPatch, drafted: list[int], resumed: set[str]) -> Any:
    """A runner after preparing a step of requests a, b, … with so many drafts each, 10 tokens before each."""
    starts = np.cumsum([0, *(nodes + 1 for nodes in drafted)])
    monkeypatch.setattr(GPUModelRunner, "_prepare_inputs", lambda *_: (None, SimpleNamespace(num_draft_tokens=drafted)))
    runner = TreeRunner.__new__(TreeRunner)
    runner.device = torch.device("cpu")
    runner.drafter = SimpleNamespace(topology=TREE)
    runner._drafted = {"a": Chosen(NOTHING), "b": Chosen(TREE.subtree([3]))}
    runner.input_batch = SimpleNamespace(
        req_ids=list("abc"[: len(drafted)]),
        num_reqs=len(drafted),
        num_computed_tokens_cpu=np.full(len(drafted), 10),
    )
    runner.query_start_loc = SimpleNamespace(np=starts)
    runner.positions = torch.zeros(int(starts[-1]), dtype=torch.long)
    scheduled = SimpleNamespace(scheduled_cached_reqs=SimpleNamespace(resumed_req_ids=resumed))
    runner._prepare_inputs(scheduled, None)
    return runner


def test_rows_of_trees_stand_at_their_depths(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = prepared(monkeypatch, [0, 1, 3], set())
    assert runner._step.trees[1].topology.paths == ((1,),)
    assert runner._step.trees[2].topology == TREE
    nodes = [runner.positions[place].item() for place in (2, 4, 5, 6)]
    assert nodes == [11, *(10 + depth for depth in TREE.depths)]


def test_what_was_drafted_before_a_preemption_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    # vLLM pads the step of a request that comes back with drafts that it makes up.
    runner = prepared(monkeypatch, [3, 3], {"a", "b"})
    assert [tree.topology for tree in runner._step.trees.values()] == [TREE, TREE]
    assert not runner._chosen("a").promised
