"""Keys and values of one request as dense tensors, beside vLLM's paged cache.

A tree's rows attend to the whole context and to their own ancestors, which no operator of vLLM's on the CPU can
express. Gathering the pages of the context in every layer and step costs more than the attention itself; a copy that
only grows at its end costs the new rows. What is missing, at first the prompt, is read from the pages.

Layout of the store: [layers, 2, key-value heads, capacity, head size], keys before values. Positions below `length`
hold committed tokens; a step's tree is written behind them.
"""

from collections.abc import Container, Iterable, Sequence

import torch

from engine.tree.pages import Pages
from engine.tree.step import rows_in_place

_GROWTH_TOKENS = 256


class Mirror:
    """The copy for one request.

    Args:
        pages: vLLM's cache.
    """

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self.length = 0
        self.store = pages.dense(0)

    def fill(self, length: int, blocks: Sequence[int], room: int) -> None:
        """Hold exactly the first `length` tokens, and have room for `room` rows behind them.

        Args:
            length: committed tokens; what was held beyond them is forgotten.
            blocks: the request's blocks.
            room: rows about to be written.
        """
        capacity = self.store.shape[3]
        if capacity < length + room:
            grown = self._pages.dense(-(-(length + room) // _GROWTH_TOKENS) * _GROWTH_TOKENS)
            grown[:, :, :, : self.length] = self.store[:, :, :, : self.length]
            self.store = grown
        if self.length < length:
            self._pages.read(blocks, self.length, length, self.store)
        self.length = length

    def commit(self, path: Sequence[int]) -> tuple[int, int] | None:
        """Keep the root and the rows of `path`, in this order; the rest of the tree is forgotten.

        Args:
            path: rows of the tree, ascending.

        Returns:
            The positions (first, past the last) whose content has moved, None where everything was in place.
        """
        base = self.length
        self.length = base + 1 + len(path)
        stay = rows_in_place(path)
        if stay == len(path):
            return None
        rows = torch.tensor([base + row for row in path[stay:]])
        first = base + 1 + stay
        self.store[:, :, :, first : self.length] = self.store.index_select(3, rows)
        return first, self.length


class Mirrors:
    """The copies of all requests in the batch that have had a tree.

    Args:
        pages: vLLM's cache.
    """

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._mirrors: dict[str, Mirror] = {}

    def __len__(self) -> int:
        """Requests with a copy."""
        return len(self._mirrors)

    def of(self, request_id: str) -> Mirror:
        """That of one request, made where there is none."""
        mirror = self._mirrors.get(request_id)
        if mirror is None:
            mirror = self._mirrors[request_id] = Mirror(self._pages)
        return mirror

    def drop(self, request_ids: Iterable[str]) -> None:
        """Forget requests; unknown ones are ignored."""
        for request_id in request_ids:
            self._mirrors.pop(request_id, None)

    def keep(self, request_ids: Container[str]) -> None:
        """Forget all but these requests."""
        self.drop([request_id for request_id in self._mirrors if request_id not in request_ids])
