"""A drafter that knows the answer, for tests and for measuring what a step costs.

It reads replies from a file and, where a request's tokens so far are the beginning of one of them, drafts its
continuation along a random path of the tree, to a random depth, and decoys everywhere else. Drafts need not be good to
be checked exactly, and this way every kind of path is taken.
"""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from engine.heads.drafting import Deeper, Draft
from engine.tree.source import Candidate
from engine.tree.topology import Topology


class Oracle:
    """Implements `engine.tree.source.Source`; it says nothing of chances.

    Args:
        path: a JSON file: `replies` is a list of token id lists, prompt and reply; `depth` the longest path that is
            true, default all; `nodes` drafts only that many of a tree; `fail` true makes it raise. Read again whenever
            it changes.
        topology: the tree.
    """

    def __init__(self, path: str, topology: Topology) -> None:
        self._path, self._topology = Path(path), topology
        self._random = random.Random(0)
        self._read_at = -1
        self._document: dict[str, Any] = {"replies": []}

    def draft(self, candidates: Sequence[Candidate], hidden: torch.Tensor, deeper: Deeper | None) -> list[Draft]:
        """See `Source`; a request that is not in the file gets no drafts."""
        changed = self._path.stat().st_mtime_ns
        if changed != self._read_at:
            self._read_at, self._document = changed, json.loads(self._path.read_text())
        if self._document.get("fail"):
            raise RuntimeError("the oracle was told to fail")
        drafts = (self._drafts(self._continuation(candidate.token_ids.tolist())) for candidate in candidates)
        return [Draft(list(range(1, len(tokens) + 1)), tokens, []) for tokens in drafts]

    def _continuation(self, known: list[int]) -> list[int]:
        for reply in self._document["replies"]:
            if len(reply) > len(known) and reply[: len(known)] == known:
                return list(reply[len(known) :])
        return []

    def _drafts(self, truth: list[int]) -> list[int]:
        """The true tokens along one path, the tokens after them everywhere else."""
        topology = self._topology
        if not truth:
            return []
        leaf = self._random.choice(range(1, topology.nodes + 1))
        depth = min(len(truth), self._document.get("depth", topology.max_depth))
        drafts = [(truth[0] + node) % 40000 + 17 for node in range(1, topology.nodes + 1)]
        for row in topology.lineages[leaf][1 : 1 + depth]:
            drafts[row - 1] = truth[topology.depths[row - 1] - 1]
        return drafts[: self._document.get("nodes", topology.nodes)]
