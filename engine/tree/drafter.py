"""What drafts trees: vLLM's entry for a drafter of one's own, and the safe call of whatever drafts.

vLLM makes a `TreeDrafter` by name (method `custom_class`), hands it the target model once that is loaded, and then the
runner asks it for drafts after each step. A drafter that fails costs its drafts and nothing else.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

from engine.tree.size_policy import SizePolicy
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
            their paths, `heads` to draft with, `tally` the file to count in, and `follow_load`, whether trees shrink
            where they do not pay.

    Attributes:
        topology: the whole tree.
        tally: of everything that trees gave.
        policy: what the load makes of the tree; None where it is always whole.
        chosen: the tree of the last drafts.
    """

    def __init__(self, vllm_config: Any) -> None:
        self._options = vllm_config.additional_config["tree"]
        self._config = vllm_config
        self._folder = Path(vllm_config.model_config.model)
        self._trees = [Topology.from_paths(tuple(path) for path in paths) for paths in self._options["trees"]]
        self.topology = self._trees[-1]
        self._source: Source | None = None
        self.restart()

    def restart(self) -> None:
        """Count, and learn what trees cost and bring, from the beginning."""
        self.chosen = self.topology
        self.tally = Tally(Path(self._options["tally"]), writing=True)
        self.tally.set("size", self.topology.nodes)
        self.policy: SizePolicy | None = None
        if self._options["follow_load"]:
            self.policy = SizePolicy(self._trees, {tuple(path): share for path, share in self._options["shares"]})

    def load_model(self, target: Any) -> None:
        """Called by vLLM once the target model is loaded."""
        from engine.float16_weights import wanted

        heads: str = self._options["heads"]
        if heads.startswith(ORACLE):
            from engine.tree.oracle import Oracle

            self._source = Oracle(heads.removeprefix(ORACLE))
            return
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
        if tree is None or self._source is None:
            return drafts
        self.chosen = tree
        self.tally.add("drafts")
        try:
            with timed(self.tally, "draft_s"):
                hidden = hidden_states[torch.tensor([candidate.place for candidate in candidates])]
                for candidate, tokens in zip(candidates, self._source.draft(candidates, hidden, tree), strict=True):
                    drafts[candidate.row] = tokens
        except Exception as error:
            self.tally.add("draft_failures")
            logger.warning("drafting failed, this step goes on without drafts: %s", type(error).__name__)
            return [[] for _ in range(requests)]
        return drafts

    def _tree(self, batch: int) -> Topology | None:
        """Of the next step, None for none."""
        if not batch or self.policy is None:
            return self.topology if batch else None
        tree = self.policy.choose(batch)
        self.tally.set("size", tree.nodes if tree else 0)
        return tree
