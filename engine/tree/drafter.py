"""What drafts trees: vLLM's entry for a drafter of one's own, and the safe call of whatever drafts.

vLLM makes a `TreeDrafter` by name (method `custom_class`), hands it the target model once that is loaded, and then the
runner asks it for drafts after each step. A drafter that fails costs its drafts and nothing else.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

from engine.tree.grafting import NOTHING, Grafting
from engine.tree.row_costs import RowCosts
from engine.tree.size_policy import SizePolicy
from engine.tree.step import Step
from engine.tree.stopwatch import timed
from engine.tree.tally import Tally
from engine.tree.topology import Topology

logger = logging.getLogger("voicepace.tree")

ORACLE = "oracle:"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A request that could be drafted for.

    Attributes:
        row: in the batch.
        place: of its last accepted token's hidden state among the step's.
        bonus: the token sampled last, the root of the next tree.
        token_ids: prompt and reply so far, the bonus token included.
    """

    row: int
    place: int
    bonus: int
    token_ids: npt.NDArray[np.int32]


class Source(Protocol):
    """Something that drafts trees."""

    def draft(self, candidates: Sequence[Candidate], hidden: torch.Tensor, tree: Topology) -> list[list[int]]:
        """Token ids in the tree's node order, one list per candidate; shorter ones are cut trees, [] is none.

        Args:
            candidates: the requests.
            hidden: [candidates, hidden size] of the target model after each candidate's last accepted token.
            tree: which of the candidate tokens are wanted.
        """


class TreeDrafter:
    """Drafts for all requests of a step.

    Args:
        vllm_config: vLLM's; `additional_config["tree"]` holds the `trees` to choose from, ascending in size, `shares` of
            their paths, `heads` to draft with, `tally` the file to count in, `follow_load`, whether trees shrink where
            they do not pay, and `lookup`, whether continuations found in the text are grafted onto them.

    Attributes:
        topology: the whole tree.
        tally: of everything that trees gave.
        policy: what the load makes of the tree; None where it is always whole.
        chosen: the trees of the last drafts, one for each candidate.
    """

    def __init__(self, vllm_config: Any) -> None:
        self._options = vllm_config.additional_config["tree"]
        self._config = vllm_config
        self._folder = Path(vllm_config.model_config.model)
        self._trees = [Topology.from_paths(tuple(path) for path in paths) for paths in self._options["trees"]]
        self.topology = self._trees[-1]
        self._source: Source | None = None
        self.restart({})

    def restart(self, row_seconds: Mapping[int, float]) -> None:
        """Count, and learn what trees cost and bring, from the beginning.

        Args:
            row_seconds: of steps by their rows, as far as measured (`engine.tree.row_costs`).
        """
        self.chosen: list[Topology] = []
        self.tally = Tally(Path(self._options["tally"]), writing=True)
        self.tally.set("size", self.topology.nodes)
        self.policy: SizePolicy | None = None
        self._shares = shares = {tuple(path): share for path, share in self._options["shares"]}
        if self._options["follow_load"]:
            self.policy = SizePolicy(self._trees, shares, RowCosts(row_seconds))
        self._grafting = Grafting(self.topology, shares, self.policy) if self._options["lookup"] else None

    def load_model(self, target: Any) -> None:
        """Called by vLLM once the target model is loaded."""
        heads: str = self._options["heads"]
        if heads.startswith(ORACLE):
            from engine.tree.oracle import Oracle

            self._source = Oracle(heads.removeprefix(ORACLE))
            return
        from engine.float16_weights import wanted
        from engine.tree.heads_source import HeadsSource

        self._source = HeadsSource(heads, self.topology, target, self._folder, wanted(self._config))

    def propose(self, *args: Any, **kwargs: Any) -> list[list[int]]:
        """vLLM wants the method to be there; the runner calls `drafts` instead."""
        raise NotImplementedError

    def drafts(self, candidates: Sequence[Candidate], hidden_states: torch.Tensor, requests: int) -> list[list[int]]:
        """Drafts by row of the batch.

        Args:
            candidates: the requests to draft for; all others get none.
            hidden_states: [tokens of the step, hidden size].
            requests: rows of the batch.
        """
        drafts: list[list[int]] = [[] for _ in range(requests)]
        tree = self._tree(len(candidates))
        self.chosen = [tree] * len(candidates)
        if not candidates or (tree is NOTHING and self._grafting is None):
            return drafts
        try:
            with timed(self.tally, "draft_s"):
                drafted = self._drafted(candidates, hidden_states, tree)
                if self._grafting is not None:
                    self._graft(self._grafting, candidates, drafted)
        except Exception as error:
            self.tally.add("draft_failures")
            logger.warning("drafting failed, this step goes on without drafts: %s", type(error).__name__)
            return drafts
        self.tally.add("drafts", any(drafted))
        for candidate, tokens in zip(candidates, drafted, strict=True):
            drafts[candidate.row] = tokens
        return drafts

    def _tree(self, batch: int) -> Topology:
        """Of the next step."""
        if not batch or self.policy is None:
            return self.topology
        tree = self.policy.choose(batch) or NOTHING
        self.tally.set("size", tree.nodes)
        return tree

    def _drafted(self, candidates: Sequence[Candidate], hidden_states: torch.Tensor, tree: Topology) -> list[list[int]]:
        if tree is NOTHING or self._source is None:
            return [[] for _ in candidates]
        hidden = hidden_states[torch.tensor([candidate.place for candidate in candidates])]
        return self._source.draft(candidates, hidden, tree)

    def _graft(self, grafting: Grafting, candidates: Sequence[Candidate], drafted: list[list[int]]) -> None:
        for place, candidate in enumerate(candidates):
            self.chosen[place], drafted[place] = grafting.grafted(
                candidate.token_ids, self.chosen[place], drafted[place], len(candidates)
            )

    def saw_tree(self, tree: Topology, path: Sequence[int]) -> None:
        """A tree was verified.

        Args:
            tree: as much of it as was verified.
            path: the rows accepted, 1 for the first node.
        """
        self.tally.count_tree(tree.nodes, len(path), bool(path) and path[-1] > tree.principal)
        self.tally.add("expected_tokens", sum(self._shares.get(node, 0.0) for node in tree.paths))
        if self.policy is not None:
            self.policy.saw_tree(tree, path)
        if tree.graft_nodes:
            accepted = sum(row > tree.nodes - tree.graft_nodes for row in path)
            self.tally.add("grafts")
            self.tally.add("graft_tokens", accepted)
            if self._grafting is not None:
                self._grafting.saw_graft(tree, accepted)

    def saw_step(self, step: Step, seconds: float) -> None:
        """A step was run and drafted behind, in this time."""
        if self.policy is None or (nodes := step.even_nodes) is None:
            return
        batch = len(step.logit_rows)
        if not step.graft_nodes:
            self.policy.saw_step(batch, nodes, seconds)
        elif self._grafting is not None and (times := self.policy.times(batch, nodes, seconds)) is not None:
            self._grafting.saw_step(batch, times / self.policy.times_with(batch, nodes, step.graft_nodes))
