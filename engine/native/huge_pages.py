"""Memory for what every step reads whole, in pages of 2 MiB where the system has them (Linux: transparent huge pages).

A step reads all weights front to back. In pages of 4 KiB every 64 lines of the cache begin with a walk through the page
table, and what a core fetches ahead by itself ends with the page.
"""

import mmap
from contextlib import suppress

import torch

_PAGE = 2**21
_CHUNK = 8 * _PAGE
_LINE = 64


class HugePages:
    """Hands out memory piece by piece, so that small matrices lie in one page together."""

    def __init__(self) -> None:
        self._left = torch.empty(0, dtype=torch.uint8)

    def kept(self, values: torch.Tensor) -> torch.Tensor:
        """A contiguous copy of some values, at the beginning of a line of the cache."""
        size = values.numel() * values.element_size()
        taken = -(-size // _LINE) * _LINE
        if taken > len(self._left):
            self._left = _chunk(max(taken, _CHUNK))
        place, self._left = self._left[:size], self._left[taken:]
        return place.view(values.dtype).view(values.shape).copy_(values)


def _chunk(size: int) -> torch.Tensor:
    """[size or somewhat more] bytes, from the beginning of a page on."""
    size = -(-size // _PAGE) * _PAGE
    memory = mmap.mmap(-1, size + _PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    # Not every system has such pages, or gives them when asked.
    with suppress(OSError, AttributeError):
        memory.madvise(mmap.MADV_HUGEPAGE)
    whole = torch.frombuffer(memory, dtype=torch.uint8)
    begin = -whole.data_ptr() % _PAGE
    return whole[begin : begin + size]
