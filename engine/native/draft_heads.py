"""One level of drafting with sequential heads (draft_heads.c), called with torch's tensors."""

import ctypes
from collections.abc import Sequence

import torch

from engine.native.library import Kept, library, width
from engine.native.panels import Panels


class _Heads(ctypes.Structure):
    _fields_ = [(name, ctypes.c_long) for name in ("hidden", "inner", "blocks", "size")]
    _fields_ += [(name, ctypes.c_void_p) for name in ("tokens", "vocabulary", "states", "downs")]
    _fields_ += [("epsilon", ctypes.c_float)]


class _Depth(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("carry", "scale", "shift")]


def suits(tokens: torch.Tensor, downs: Sequence[torch.Tensor], vocabulary: torch.Tensor, kept: Kept) -> bool:
    """Whether `DraftLevels` can run heads of these matrices here.

    Args:
        tokens: as in `DraftLevels`.
        downs: as in `DraftLevels`.
        vocabulary: as in `DraftLevels`.
        kept: as in `DraftLevels`.
    """
    sizes = (*downs[0].shape, len(vocabulary))
    whole = library(kept) is not None and all(size % width(kept) == 0 for size in sizes)
    return whole and tokens.dtype == torch.float32


class DraftLevels:
    """Heads whose levels are run one by one.

    Args:
        tokens: [blocks * 2 inner, hidden] float32, as all that follow.
        states: for each block [2 inner, hidden].
        downs: for each block [hidden, inner].
        vocabulary: [draft vocabulary, hidden].
        carry: [depths, hidden].
        scale: [depths, hidden].
        shift: [depths, blocks * 2 inner].
        epsilon: of the norms.
        kept: how matrices are kept.
    """

    def __init__(
        self,
        tokens: torch.Tensor,
        states: Sequence[torch.Tensor],
        downs: Sequence[torch.Tensor],
        vocabulary: torch.Tensor,
        carry: torch.Tensor,
        scale: torch.Tensor,
        shift: torch.Tensor,
        epsilon: float,
        kept: Kept,
    ) -> None:
        loops = library(kept)
        assert loops is not None
        self._level = loops.draft_level
        self._hidden, inner = downs[0].shape
        self._panels = [Panels(matrix, kept) for matrix in (tokens, vocabulary, *states, *downs)]
        addresses = [panels.address for panels in self._panels]
        blocks = ctypes.c_void_p * len(states)
        self._blocks = (blocks(*addresses[2 : 2 + len(states)]), blocks(*addresses[2 + len(states) :]))
        places = (addresses[0], addresses[1], *map(ctypes.addressof, self._blocks))
        self._heads = ctypes.pointer(_Heads(self._hidden, inner, len(states), len(vocabulary), *places, epsilon))
        self._own = [matrix.detach().contiguous() for matrix in (carry, scale, shift)]
        rows = [[row.data_ptr() for row in matrix] for matrix in self._own]
        self._depths = [ctypes.pointer(_Depth(*row)) for row in zip(*rows, strict=True)]
        self._scratch = self._hidden + (2 * len(states) + 3) * inner + len(vocabulary)

    def __call__(
        self, depth: int, states: torch.Tensor, embedded: torch.Tensor, candidates: int
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """What is drafted after some tokens.

        Args:
            depth: from 0.
            states: [rows, hidden] float32.
            embedded: [rows, hidden] float32, of the token that each state moves past.
            candidates: how many, at most as many as the draft vocabulary has.

        Returns:
            [rows, hidden] the states behind, and, likeliest first, [rows, candidates] rows of the draft vocabulary and
            their probabilities.
        """
        rows = len(states)
        states, embedded = states.clone(memory_format=torch.contiguous_format), embedded.contiguous()
        scratch = states.new_empty(rows * self._scratch)
        ids, shares = torch.empty(rows, candidates, dtype=torch.long), states.new_empty(rows, candidates)
        given = (rows, embedded.data_ptr(), states.data_ptr(), scratch.data_ptr(), candidates)
        self._level(self._heads, self._depths[depth], *given, ids.data_ptr(), shares.data_ptr())
        return states, ids, shares
