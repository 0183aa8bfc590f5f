"""Caches with random contents and steps over them, with a dense float64 reference."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from engine.tree.gpu.attention_kernel import attend
from engine.tree.gpu.row_tiles import AttentionShape, Launch, RowTiles
from engine.tree.topology import Topology

PAGE = 16


@dataclass(frozen=True, slots=True)
class Request:
    """Attributes:
    context: tokens in the cache before this step.
    rows: of this step.
    tree: that the rows are; None for a prompt or a plain row.
    """

    context: int
    rows: int
    tree: Topology | None = None

    @classmethod
    def verifying(cls, context: int, tree: Topology | None) -> "Request":
        """A tree's rows, or the one row of a plain step."""
        return cls(context, tree.nodes + 1 if tree else 1, tree)

    @property
    def pages(self) -> int:
        """That its tokens take."""
        return -(-(self.context + self.rows) // PAGE)


class Cache:
    """One layer's pages, filled at random.

    Args:
        pages: how many.
        shape: of the model.
        dtype: of keys and values.
        device: to be on.
    """

    def __init__(self, pages: int, shape: AttentionShape, dtype: torch.dtype, device: str) -> None:
        self.shape = shape
        # vLLM's logical order, [pages, heads, tokens, keys and values], over its usual one in memory, tokens before heads.
        store = torch.empty(pages, PAGE, shape.kv_heads, 2 * shape.head_size, dtype=dtype, device=device).normal_()
        self.pages = store.transpose(1, 2)
        self.keys, self.values = store.split(shape.head_size, -1)
        self._order = torch.randperm(pages, generator=torch.Generator().manual_seed(7)).to(torch.int32)

    def tables(self, requests: Sequence[Request], first: int = 0) -> torch.Tensor:
        """[requests, most pages] int32: pages in a random but fixed order, from the `first` one on."""
        widest = max(request.pages for request in requests)
        tables = torch.zeros(len(requests), widest, dtype=torch.int32)
        for row, request in enumerate(requests):
            tables[row, : request.pages] = self._order[first : first + request.pages]
            first += request.pages
        return tables.to(self.keys.device)


class Attention:
    """One step over one cache.

    Args:
        cache: with room for all requests.
        requests: of the step.
        processors: of the device; more of them cut contexts into more parts.
        first: where in the cache to begin.
        launch: None to choose one.
    """

    def __init__(
        self,
        cache: Cache,
        requests: Sequence[Request],
        processors: int,
        first: int = 0,
        launch: Launch | None = None,
    ) -> None:
        self.cache, self.requests = cache, requests
        shape = cache.shape
        counts = [request.rows for request in requests]
        contexts = [request.context for request in requests]
        trees = {row: request.tree for row, request in enumerate(requests) if request.tree is not None}
        tables = cache.tables(requests, first)
        self.step = RowTiles.of(counts, contexts, tables, trees, shape, processors, launch)
        size = (sum(counts), shape.query_heads, shape.head_size)
        self.query = torch.empty(size, dtype=cache.keys.dtype, device=cache.keys.device).normal_()
        self.output = torch.empty_like(self.query)
        self._scale = shape.head_size**-0.5

    @property
    def least_bytes(self) -> int:
        """That must be moved: keys and values once, queries, results."""
        tokens = sum(request.context + request.rows for request in self.requests)
        token = 2 * self.cache.shape.kv_heads * self.cache.shape.head_size
        return int((tokens * token + 2 * self.query.numel()) * self.query.element_size())

    def run(self) -> None:
        """Attend."""
        attend(self.query, self.cache.keys, self.cache.values, self.output, self.step, self._scale)

    def errors(self) -> tuple[float, float]:
        """Largest and root-mean-square difference from the reference, after `run`."""
        difference = self.output.double() - self.expected()
        return float(difference.abs().max()), float(difference.pow(2).mean().sqrt())

    def expected(self) -> torch.Tensor:
        """In float64, densely: every score of every row, those that it must not see taken out."""
        parts, begin = [], 0
        group = self.cache.shape.group
        for row, request in enumerate(self.requests):
            pages = self.step.tables[row, : request.pages].long()
            length = request.context + request.rows
            keys, values = (
                half[pages].flatten(0, 1)[:length].double().repeat_interleave(group, 1)
                for half in (self.cache.keys, self.cache.values)
            )
            own = torch.ones(request.rows, request.rows, dtype=torch.bool).tril()
            if request.tree is not None:
                own = torch.from_numpy(request.tree.ancestors)
            seen = torch.cat((torch.ones(request.rows, request.context, dtype=torch.bool), own), 1)
            query = self.query[begin : begin + request.rows].double()
            scores = torch.einsum("rhd,thd->hrt", query, keys) * self._scale
            scores.masked_fill_(~seen.to(keys.device), float("-inf"))
            parts.append(torch.einsum("hrt,thd->rhd", scores.softmax(-1), values))
            begin += request.rows
        return torch.cat(parts)
