"""Trees drafted by heads, as the engine asks for them."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from engine.heads.architectures import build
from engine.heads.checkpoint import Checkpoint, load, save
from engine.heads.config import Architecture, HeadsConfig
from engine.heads.drafting import Drafting
from engine.heads.loss import Target
from engine.heads.names import HeadsMissing
from engine.tree.choice import heads_file, known_shares
from engine.tree.heads_source import HeadsSource
from engine.tree.source import Candidate
from engine.tree.topology import Topology

HIDDEN, VOCABULARY = 16, 60
TREE = Topology.from_paths([(0,), (1,), (2,), (0, 0), (0, 1), (1, 0), (0, 0, 0), (1, 0, 0)])


def write_heads(path: Path, architecture: Architecture = "sequential", **about: Any) -> Checkpoint:
    torch.manual_seed(2)
    heads = build(HeadsConfig(architecture, depth=3, hidden=HIDDEN, inner=8, layers=1, draft_vocabulary=40))
    for parameter in heads.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    checkpoint = Checkpoint(heads.requires_grad_(False), torch.randperm(VOCABULARY)[:40], about)
    save(path, checkpoint)
    return checkpoint


def target() -> Any:
    torch.manual_seed(3)
    embedding = torch.nn.Embedding(VOCABULARY, HIDDEN)
    return SimpleNamespace(
        lm_head=SimpleNamespace(weight=embedding.weight), model=SimpleNamespace(embed_tokens=embedding)
    )


def candidates(*tokens: int) -> list[Candidate]:
    return [Candidate(row, row, token, np.array([1, token], np.int32)) for row, token in enumerate(tokens)]


def test_drafts_are_those_of_the_heads_in_node_order_whole_or_as_far_as_they_are_wanted(tmp_path: Path) -> None:
    path = tmp_path / "sequential.safetensors"
    write_heads(path)
    model = target()
    source = HeadsSource(str(path), TREE, model, tmp_path, kept=None)
    hidden = torch.randn(3, HIDDEN)
    whole = source.draft(candidates(5, 6, 7), hidden, None)
    kept = load(path)
    weight = model.lm_head.weight.detach()
    drafting = Drafting(kept.heads, Target.of(weight, weight, kept.token_map), TREE)
    assert [draft.tokens for draft in whole] == drafting.draft(hidden, torch.tensor([5, 6, 7])).tolist()
    assert all(draft.rows == list(range(1, 9)) for draft in whole)
    # Siblings are different candidates.
    assert len({whole[0].tokens[row - 1] for row in TREE.children[0]}) == 3
    for draft, likely in zip(whole, source.draft(candidates(5, 6, 7), hidden, lambda *_: []), strict=True):
        assert likely.rows == list(TREE.children[0])
        assert likely.tokens == [draft.tokens[row - 1] for row in likely.rows]


def test_heads_with_matrices_of_their_own_draft_by_them(tmp_path: Path) -> None:
    path, model = tmp_path / "medusa.safetensors", target()
    own = tuple(torch.randn(3, VOCABULARY, HIDDEN).bfloat16().float())
    written = write_heads(path, "medusa")
    save(path, replace(written, own=own))
    hidden = torch.randn(3, HIDDEN)
    drafts = HeadsSource(str(path), TREE, model, tmp_path, kept=None).draft(candidates(5, 6, 7), hidden, None)
    weight, kept = model.lm_head.weight.detach(), load(path)
    expected, without = (
        Drafting(kept.heads, Target.of(weight, weight, kept.token_map, matrices), TREE)
        .draft(hidden, torch.tensor([5, 6, 7]))
        .tolist()
        for matrices in (own, ())
    )
    assert [draft.tokens for draft in drafts] == expected
    assert expected != without


def test_heads_that_do_not_reach_the_tree_s_depth_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "heads.safetensors"
    write_heads(path)
    with pytest.raises(ValueError, match="4 deep, the heads only 3"):
        HeadsSource(str(path), Topology.chain(4), target(), tmp_path, kept=None)


def test_heads_of_another_model_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "heads.safetensors"
    write_heads(path, target={"sha256": "0" * 64})
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ValueError, match="trained on another model"):
        HeadsSource(str(path), TREE, target(), tmp_path, kept=None)


def test_sequential_heads_are_preferred_and_missing_ones_are_named(tmp_path: Path) -> None:
    write_heads(tmp_path / "medusa.safetensors", "medusa")
    assert heads_file(str(tmp_path)).name == "medusa.safetensors"
    write_heads(tmp_path / "sequential.safetensors", paths=[[[0], 0.5], [[1], 0.2], [[0, 0], 0.3]])
    assert heads_file(str(tmp_path)).name == "sequential.safetensors"
    shares = known_shares(str(tmp_path))
    assert shares is not None
    assert [(entry.path, entry.share) for entry in shares] == [((0,), 0.5), ((1,), 0.2), ((0, 0), 0.3)]
    with pytest.raises(HeadsMissing, match="names no heads that can draft trees"):
        heads_file(str(tmp_path / "none"))
    assert known_shares(str(tmp_path / "none")) is None
