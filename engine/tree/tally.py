"""Counts of what trees gave, kept where the engine core writes and the service reads: one small mapped file.

The core lives in a process of its own, and vLLM's own statistics know chains only. A number is eight aligned bytes with
one writer, so a reader sees it before or after a change, never between. All numbers only grow, except the ones that say
what holds now.
"""

from pathlib import Path

import numpy as np

MAX_DEPTH = 16
# Of every request in every step, unless said otherwise.
COUNTS = (
    "trees",  # trees verified
    "nodes",  # nodes verified
    "tokens",  # tokens that these trees gave, bonus tokens included
    "expected_tokens",  # drafted tokens that the accuracies kept with the heads let expect at this load
    "side_paths",  # trees of which a path was accepted that is not the principal chain
    "tree_steps",  # engine steps with at least one tree
    "mixed_steps",  # engine steps with trees and with other rows beside them
    "grafts",  # trees with a continuation found in the text grafted on
    "graft_tokens",  # tokens accepted from these grafts
    "moves",  # trees whose accepted path had to be moved in the cache
    "drafts",  # engine steps after which something was drafted
    "draft_failures",  # engine steps after which drafting raised
    "draft_s",  # seconds spent drafting, after any step
    "step_s",  # seconds spent in steps with trees, drafting for the next one included; of these:
    "forward_s",  # in the model, attention included, logits not
    "attention_s",  # in attention
    "walk_s",  # sampling and walking
    "commit_s",  # moving accepted paths in the cache
)
# What holds now.
STATES = (
    "size",  # nodes of the latest trees, a running mean; towards 0 while trees do not pay
    "mirrors",  # requests whose context is kept in dense form
)
NAMES = (*COUNTS, *STATES, *(f"depth_{depth}" for depth in range(MAX_DEPTH + 1)))
_PLACES = {name: place for place, name in enumerate(NAMES)}


class Tally:
    """The numbers; `depth_d` counts trees of which d nodes were accepted.

    Args:
        path: the file.
        writing: whether this is the writer, which starts from zero; there is one.
    """

    def __init__(self, path: Path, *, writing: bool = False) -> None:
        self._numbers = np.memmap(path, np.float64, "w+" if writing else "r", shape=(len(NAMES),))

    def add(self, name: str, amount: float = 1.0) -> None:
        """Count."""
        self._numbers[_PLACES[name]] += amount

    def set(self, name: str, value: float) -> None:
        """Say what holds now."""
        self._numbers[_PLACES[name]] = value

    def count_tree(self, nodes: int, accepted: int, side_path: bool) -> None:
        """One tree of `nodes` nodes, of which `accepted` were kept."""
        self.add("trees")
        self.add("nodes", nodes)
        self.add("tokens", accepted + 1)
        self.add("side_paths", side_path)
        self.add(f"depth_{min(accepted, MAX_DEPTH)}")

    def read(self) -> dict[str, float]:
        """All numbers."""
        return dict(zip(NAMES, self._numbers.tolist(), strict=True))
