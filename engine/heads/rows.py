"""Rows of kept states where heads are trained: read from their file batch by batch, or all held in a GPU's memory."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch

from engine.heads.loss import Rows
from engine.heads.states import States

_COPIED_ROWS = 1 << 18
# Of the memory that is free: heads, optimiser and activations need some too.
_MOST_OF_FREE = 0.5

Reader = Callable[[Sequence[int]], tuple[Rows, list[int]]]
"""Takes replies; gives their rows one after the other, and where each reply starts among them."""


def reader(states: States, device: str) -> Reader:
    """How to read `states` for training on `device`: a GPU holds them where there is room, which spares it waiting."""
    if device.startswith("cuda"):
        free, _ = torch.cuda.mem_get_info(device)
        if states.hidden.nbytes < _MOST_OF_FREE * free:
            return resident(states, device)
    return partial(rows_of, states, device)


def rows_of(states: States, device: str, replies: Sequence[int]) -> tuple[Rows, list[int]]:
    """Read from where the states are kept, and copied to `device`."""
    spans = [(int(states.starts[reply]), int(states.starts[reply + 1])) for reply in replies]
    hidden = np.concatenate([states.hidden[first:end] for first, end in spans]).astype(np.float32)
    tokens = np.concatenate([states.tokens[first:end] for first, end in spans]).astype(np.int64)
    _, left, starts = _places(states.starts, replies)
    return Rows(*(torch.from_numpy(part).to(device) for part in (hidden, tokens, left))), starts


def resident(states: States, device: str) -> "Resident":
    """All of `states`, copied to `device`."""
    hidden = torch.empty(states.hidden.shape, dtype=torch.float16, device=device)
    for first in range(0, len(hidden), _COPIED_ROWS):
        # A copy in between, since a file that is only read from cannot become a tensor.
        part = np.array(states.hidden[first : first + _COPIED_ROWS])
        hidden[first : first + len(part)] = torch.from_numpy(part).to(device)
    return Resident(hidden, torch.from_numpy(np.array(states.tokens)).to(device), states.starts)


class Resident:
    """Implements `Reader` from tensors on one device.

    Args:
        hidden: [rows, hidden] float16.
        tokens: [rows].
        starts: [replies + 1] first row of each reply; on the CPU.
    """

    def __init__(self, hidden: torch.Tensor, tokens: torch.Tensor, starts: np.ndarray) -> None:
        self._hidden, self._tokens, self._starts = hidden, tokens, starts

    def __call__(self, replies: Sequence[int]) -> tuple[Rows, list[int]]:
        """See `Reader`."""
        index, left, starts = _places(self._starts, replies)
        at, remaining = torch.from_numpy(np.stack([index, left])).to(self._hidden.device)
        return Rows(self._hidden[at].float(), self._tokens[at].long(), remaining), starts


def _places(starts: np.ndarray, replies: Sequence[int]) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """For each row of some replies its place among all and how many follow it; and where each reply starts here."""
    chosen = np.asarray(replies, np.int64)
    first, lengths = starts[chosen], starts[chosen + 1] - starts[chosen]
    own = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    here = np.arange(own[-1])
    return np.repeat(first - own[:-1], lengths) + here, np.repeat(own[1:], lengths) - 1 - here, own.tolist()
