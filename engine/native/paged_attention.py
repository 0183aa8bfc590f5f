"""What a step attends to over vLLM's paged cache, laid out for paged_attention.c."""

import ctypes
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from engine.native.library import Kept, library, width

MOST_ROWS = 65
"""Of a span: what a row sees beyond the common context is said in 64 bits."""

_PART = 128
"""Tokens of a part of the context, as in the header."""

_ENDS = 16
"""Numbers that a part leaves behind for a query besides a head's, as in the header."""

_ROUND = 2**22
"""Numbers that parts leave behind before they are joined, at most, if one span and head does not leave more."""


_BEHIND_EACH_OTHER = tuple((1 << place) - 1 for place in range(MOST_ROWS))


@dataclass(frozen=True, slots=True)
class Span:
    """One request's rows in a step.

    Attributes:
        row: of the block table.
        begin: place of its first row in the step.
        visible: how many of its tokens all of its rows see, the first row's own among them.
        seen: per row, bit n: it sees token `visible + n` too, which is that of row n + 1, and which that row sees itself.
    """

    row: int
    begin: int
    visible: int
    seen: tuple[int, ...]

    @property
    def length(self) -> int:
        """Tokens of the longest text that a row sees."""
        return self.visible + max(bits.bit_count() for bits in self.seen)


def causal(row: int, begin: int, end: int, length: int) -> list[Span]:
    """Rows `begin` to `end` of a step are the last of a request's `length` tokens, each behind the one before it."""
    spans = []
    for first in range(begin, end, MOST_ROWS):
        count = min(end - first, MOST_ROWS)
        spans.append(Span(row, first, length - (end - first) + 1, _BEHIND_EACH_OTHER[:count]))
    return spans


class _Pages(ctypes.Structure):
    _fields_ = [(name, ctypes.c_long) for name in ("heads", "tokens", "head")]


class _Span(ctypes.Structure):
    _fields_ = [(name, ctypes.c_long) for name in ("begin", "count", "visible")]
    _fields_ += [("blocks", ctypes.c_void_p), ("seen", ctypes.c_void_p)]


class _Attention(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("spans", "units", "firsts", "rounds")]
    _fields_ += [("round_count", ctypes.c_long), ("partial", ctypes.c_void_p), ("scale", ctypes.c_float)]


class Caches:
    """The paged cache of all layers.

    Args:
        caches: one per layer, [blocks, key-value heads, block tokens, 2 · head size] float32, of the layout
            that `engine.tree.pages` describes.
        queries: heads of queries.
        scale: of the scores.
        kept: how the model's matrices are kept, whose loops read the cache.
    """

    def __init__(self, caches: Sequence[torch.Tensor], queries: int, scale: float, kept: Kept) -> None:
        loops = library(kept)
        assert loops is not None
        self._move = loops.move_tokens
        self._kept = list(caches)
        _, self._heads, self._tokens, double = caches[0].shape
        self._head, self._group, self._scale = double // 2, queries // self._heads, scale
        self.pages = ctypes.pointer(_Pages(self._heads, self._tokens, self._head))
        self.layers = (ctypes.c_void_p * len(caches))(*[cache.data_ptr() for cache in caches])

    @staticmethod
    def suit(caches: Sequence[torch.Tensor], kept: Kept) -> bool:
        """Whether caches are of a kind that the loops read."""
        unit = width(kept)
        return all(
            cache.dtype == torch.float32
            and cache.is_contiguous()
            and cache.shape == caches[0].shape
            and _PART % cache.shape[2] == 0
            and cache.shape[2] % unit == 0
            and cache.shape[3] % (2 * unit) == 0
            and cache.shape[3] <= 512
            for cache in caches
        )

    def step(self, spans: Sequence[Span], table: torch.Tensor) -> "Step":
        """What a step attends to.

        Args:
            spans: of all rows of the step, `MOST_ROWS` rows each at most.
            table: [requests, most blocks] int32.

        Raises:
            ValueError: the table is of another type.
        """
        if table.dtype != torch.int32:
            raise ValueError(f"block table: int32 is read, not {table.dtype}")
        structures = (_Span * len(spans))()
        seen = array("Q", [bits for span in spans for bits in span.seen])
        units, firsts, rounds, place, most = array("l"), array("l", [0]), array("l", [0]), 0, 0
        address, width, offset = table.data_ptr(), table.stride(0) * table.element_size(), 0
        for index, span in enumerate(spans):
            count, blocks = len(span.seen), address + span.row * width
            structures[index] = _Span(span.begin, count, span.visible, blocks, seen.buffer_info()[0] + 8 * offset)
            offset += count
            parts = range(0, span.length, _PART)
            size = count * self._group * (self._head + _ENDS)
            for head in range(self._heads):
                if place and place + size * len(parts) > _ROUND:
                    rounds.append(len(firsts) - 1)
                    place = 0
                for begin in parts:
                    units.extend((index, head, begin, place))
                    place += size
                firsts.append(len(units) // 4)
                most = max(most, place)
        rounds.append(len(firsts) - 1)
        return Step(structures, seen, units, firsts, rounds, most, self._scale)

    def move(self, sources: Sequence[int], targets: Sequence[int]) -> None:
        """Move tokens from slots to slots, in all layers and in this order; a slot is block · block tokens + place."""
        moves = array("q", sources), array("q", targets)
        addresses = [slots.buffer_info()[0] for slots in moves]
        self._move(self.pages, self.layers, len(self._kept), *addresses, len(sources))


class Step:
    """Keeps what `pointer` points to. Made by `Caches.step`."""

    def __init__(
        self,
        spans: "ctypes.Array[_Span]",
        seen: "array[int]",
        units: "array[int]",
        firsts: "array[int]",
        rounds: "array[int]",
        partial: int,
        scale: float,
    ) -> None:
        partials = torch.empty(partial)
        self._kept = (spans, seen, units, firsts, rounds, partials)
        self.pointer = ctypes.pointer(
            _Attention(
                ctypes.addressof(spans),
                units.buffer_info()[0],
                firsts.buffer_info()[0],
                rounds.buffer_info()[0],
                len(rounds) - 1,
                partials.data_ptr(),
                scale,
            )
        )
