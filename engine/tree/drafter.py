"""What drafts trees: vLLM's entry for a drafter of one's own, and the safe call of whatever drafts.

vLLM makes a `TreeDrafter` by name (method `custom_class`), hands it the target model once that is loaded, and then the
runner asks it for drafts after each step. A drafter that fails costs its drafts and nothing else.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from engine.tree.grafting import NOTHING, Grafting, Load
from engine.tree.node_policy import NodePolicy
from engine.tree.row_costs import RowCosts
from engine.tree.selection import Chosen, Selection
from engine.tree.source import Candidate, Source
from engine.tree.step import Step
from engine.tree.stopwatch import now_s
from engine.tree.tally import Tally
from engine.tree.topology import Topology

logger = logging.getLogger("voicepace.tree")

ORACLE = "oracle:"

# Weight of the newest trees in what is said of their size.
_NEWEST = 0.1


@dataclass(frozen=True, slots=True)
class _Coming:
    """What was decided of the step that comes: for how many requests, whether they have trees, and what that took."""

    batch: int = 0
    trees: bool = False
    drafting_s: float = 0.0


class TreeDrafter:
    """Drafts for all requests of a step.

    Args:
        vllm_config: vLLM's; `additional_config["tree"]` holds the `paths` of the tree, the `shares` of them, `heads` to
            draft with, `tally` the file to count in, `follow_load`, whether only nodes are drafted that are worth their
            rows, and `lookup`, whether continuations found in the text are grafted onto trees.

    Attributes:
        topology: the whole tree.
        tally: of everything that trees gave.
        chosen: the trees of the last drafts, one for each candidate.
    """

    def __init__(self, vllm_config: Any) -> None:
        self._options = vllm_config.additional_config["tree"]
        self._config = vllm_config
        self._folder = Path(vllm_config.model_config.model)
        self.topology = Topology.from_paths(tuple(path) for path in self._options["paths"])
        self._source: Source | None = None
        self.restart({})

    def restart(self, row_seconds: Mapping[int, float]) -> None:
        """Count, and learn what trees cost and bring, from the beginning.

        Args:
            row_seconds: of steps by their rows, as far as measured (`engine.tree.row_costs`).
        """
        self.chosen: list[Chosen] = []
        self.tally = Tally(Path(self._options["tally"]), writing=True)
        self._size = float(self.topology.nodes)
        self.tally.set("size", self._size)
        self._shares = shares = {tuple(path): share for path, share in self._options["shares"]}
        self._selection: Selection | None = None
        self._coming = _Coming()
        if self._options["follow_load"]:
            policy = NodePolicy(shares.values(), RowCosts(row_seconds))
            self._selection = Selection(self.topology, shares, policy)
        self._grafting = Grafting(self.topology, shares, self.policy) if self._options["lookup"] else None

    @property
    def policy(self) -> NodePolicy | None:
        """Which nodes are worth it; None where trees are always whole."""
        return None if self._selection is None else self._selection.policy

    def load_model(self, target: Any) -> None:
        """Called by vLLM once the target model is loaded."""
        heads: str = self._options["heads"]
        if heads.startswith(ORACLE):
            from engine.tree.oracle import Oracle

            self._source = Oracle(heads.removeprefix(ORACLE), self.topology)
            return
        from engine.kept_weights import wanted
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
        batch = len(candidates)
        sampled = not all(candidate.greedy for candidate in candidates)
        trees = bool(batch) and (self.policy is None or self.policy.trees(batch, requests - batch, sampled))
        self.chosen = [Chosen(NOTHING) for _ in candidates]
        self._coming = _Coming(batch)
        if candidates and not trees:
            self._say_size(0)
        if not candidates or (not trees and self._grafting is None):
            return drafts
        begin_s = now_s()
        try:
            drafted = self._drafted(candidates, hidden_states) if trees else [[] for _ in candidates]
            if self._grafting is not None:
                self._graft(self._grafting, candidates, drafted, requests)
        except Exception as error:
            self.chosen = [Chosen(NOTHING) for _ in candidates]
            self.tally.add("draft_failures")
            logger.warning("drafting failed, this step goes on without drafts: %s", type(error).__name__)
            return drafts
        seconds = now_s() - begin_s
        self.tally.add("draft_s", seconds)
        self._coming = _Coming(batch, trees, seconds)
        if trees and self.policy is not None:
            self.policy.saw_drafting(seconds)
        self.tally.add("drafts", any(drafted))
        for candidate, tokens in zip(candidates, drafted, strict=True):
            drafts[candidate.row] = tokens
        return drafts

    def _drafted(self, candidates: Sequence[Candidate], hidden_states: torch.Tensor) -> list[list[int]]:
        """The tokens of trees of their own, which are put into `chosen`."""
        assert self._source is not None
        hidden = hidden_states[torch.tensor([candidate.place for candidate in candidates])]
        if self._selection is None:
            drafts = self._source.draft(candidates, hidden, None)
            self.chosen = [Chosen(self.topology.subtree(draft.rows) if draft.rows else NOTHING) for draft in drafts]
            paths = [path for chosen in self.chosen for path in chosen.tree.paths]
            self.tally.add("expected_tokens", sum(self._shares.get(path, 0.0) for path in paths))
            return [draft.tokens for draft in drafts]
        self.chosen, drafted = self._selection.drafted(self._source, candidates, hidden)
        self.tally.add("expected_tokens", len(drafted) * self._selection.policy.expected(len(drafted)))
        self._say_size(sum(map(len, drafted)) / len(drafted))
        return drafted

    def _say_size(self, nodes: float) -> None:
        self._size += _NEWEST * (nodes - self._size)
        self.tally.set("size", self._size)

    def _graft(
        self, grafting: Grafting, candidates: Sequence[Candidate], drafted: list[list[int]], requests: int
    ) -> None:
        tokens = sum(chosen.tokens for chosen in self.chosen) / len(self.chosen)
        load = Load(len(candidates), requests + sum(map(len, drafted)), tokens)
        for place, candidate in enumerate(candidates):
            chosen = self.chosen[place]
            tree, drafted[place] = grafting.grafted(candidate.token_ids, chosen.tree, drafted[place], load)
            self.chosen[place] = replace(chosen, tree=tree)

    def saw_tree(self, chosen: Chosen, tree: Topology, path: Sequence[int]) -> None:
        """A tree was verified.

        Args:
            chosen: the tree.
            tree: as much of it as was verified.
            path: the rows accepted, 1 for the first node.
        """
        self.tally.count_tree(tree.nodes, len(path), bool(path) and path[-1] > tree.principal)
        if self._selection is not None:
            self._selection.saw_tree(chosen, tree.nodes, path)
        if tree.graft_nodes:
            accepted = sum(row > tree.nodes - tree.graft_nodes for row in path)
            self.tally.add("grafts")
            self.tally.add("graft_tokens", accepted)
            if self._grafting is not None:
                self._grafting.saw_graft(tree, accepted)

    def saw_step(self, step: Step, seconds: float) -> None:
        """A step was run; its trees were the last ones drafted.

        Args:
            step: as it was.
            seconds: until all requests had their tokens.
        """
        coming, rows = self._coming, step.decoding_rows
        if self.policy is None or rows is None or not coming.batch:
            return
        seconds += coming.drafting_s
        if not step.graft_nodes:
            self.policy.saw_step(coming.batch, coming.trees, rows, seconds)
        elif self._grafting is not None:
            times = self.policy.times(coming.batch, coming.trees, rows, seconds)
            if times is not None:
                self._grafting.saw_step(coming.batch, times)
