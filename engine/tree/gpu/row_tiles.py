"""How the rows of a step are dealt out to a GPU's processors, and what each row of a tree may see.

A tile is some consecutive rows of one request with all query heads that share a key-value head: one program of
`engine.tree.gpu.attention_kernel` attends for it. Long contexts are further cut into parts that are attended to at the same
time and then merged. A row of a tree sees its context, the root, and the nodes on its path, which fit into the bits of
one word: bit i is node i. So every request of a step may have a tree of its own, and a tree cut to its first nodes needs
nothing special.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

import numpy as np
import numpy.typing as npt
import torch

from engine.tree.topology import Topology

MAX_NODES = 64
_MOST_PARTS = 32
_LEAST_KEYS_PER_PART = 128


@dataclass(frozen=True, slots=True)
class Launch:
    """How a program works.

    Attributes:
        lanes: rows times query heads per key-value head that a program has room for; a power of two, at least 16.
        keys: of the context, looked at in one go; a power of two.
        warps: that share the work.
        stages: of loading ahead.
    """

    lanes: int
    keys: int
    warps: int
    stages: int

    @classmethod
    def fitting(cls, lanes: int, element_bytes: int) -> Self:
        """For a longest request of so many rows times heads; float32 is multiplied without tensor cores.

        Args:
            lanes: rows times query heads per key-value head.
            element_bytes: of queries, keys and values.
        """
        exact = element_bytes > 2
        room = min(32 if exact else 64, max(16, 1 << (lanes - 1).bit_length()))
        return cls(room, 32 if exact else 64, 4, 1 if exact else 2)


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """Attributes:
    query_heads: of the model.
    kv_heads: that the query heads share, evenly.
    head_size: a power of two.
    element_bytes: of queries, keys and values.
    """

    query_heads: int
    kv_heads: int
    head_size: int
    element_bytes: int

    @property
    def group(self) -> int:
        """Query heads per key-value head."""
        return self.query_heads // self.kv_heads


@dataclass(frozen=True, slots=True)
class RowTiles:
    """One step, as the kernel takes it; all tensors are on its device.

    Attributes:
        starts: [requests + 1] int32, the place of each request's first row in the step, and one past the last row.
        lengths: [requests] int32, tokens in the cache, this step's rows included.
        tables: [requests, pages] int32, each request's pages in order.
        lineages: [rows] int64, for rows of trees the nodes on their path as bits.
        tiles: [tiles, 3] int32: request, first row within it, 1 for a tree.
        parts: into how many each context is cut; a power of two.
        launch: that the tiles were made for.
    """

    starts: torch.Tensor
    lengths: torch.Tensor
    tables: torch.Tensor
    lineages: torch.Tensor
    tiles: torch.Tensor
    parts: int
    launch: Launch

    @classmethod
    def of(
        cls,
        counts: Sequence[int],
        contexts: Sequence[int],
        tables: torch.Tensor,
        trees: Mapping[int, Topology],
        shape: AttentionShape,
        processors: int,
        launch: Launch | None = None,
    ) -> Self:
        """The tiles of a step.

        Args:
            counts: rows of each request in this step.
            contexts: for each request the tokens in the cache before them.
            tables: as the attribute, on the device that attends.
            trees: by request, those whose rows are a root and the nodes of this tree.
            shape: of the model.
            processors: of the device.
            launch: None to choose one.

        Raises:
            ValueError: a tree that does not have one row for its root and each node, or has too many.
        """
        words = np.zeros(sum(counts), np.int64)
        starts = np.cumsum([0, *counts], dtype=np.int32)
        for request, topology in trees.items():
            if topology.nodes > MAX_NODES or counts[request] != topology.nodes + 1:
                raise ValueError(f"{counts[request]} rows for a tree of {topology.nodes} nodes, at most {MAX_NODES}")
            words[starts[request] : starts[request + 1]] = lineage_words(topology)
        if launch is None:
            launch = Launch.fitting(max(counts) * shape.group, shape.element_bytes)
        step = max(1, launch.lanes // shape.group)
        tiles = [
            (request, first, int(request in trees))
            for request, count in enumerate(counts)
            for first in range(0, count, step)
        ]
        lengths = np.add(counts, contexts, dtype=np.int32)
        parts = parts_for(len(tiles) * shape.kv_heads, int(lengths.max()), processors)
        arrays = (starts, lengths, words, np.array(tiles, np.int32))
        on_device = [torch.from_numpy(array).to(tables.device, non_blocking=True) for array in arrays]
        return cls(on_device[0], on_device[1], tables, on_device[2], on_device[3], parts, launch)


def parts_for(programs: int, longest: int, processors: int) -> int:
    """Into how many parts to cut contexts so that all processors have work; a power of two.

    Args:
        programs: that there are without cutting.
        longest: tokens of the longest request.
        processors: of the device.
    """
    wanted = min(_MOST_PARTS, 2 * processors // programs, longest // _LEAST_KEYS_PER_PART)
    return 1 << max(0, wanted.bit_length() - 1)


@lru_cache(maxsize=64)
def lineage_words(topology: Topology) -> npt.NDArray[np.int64]:
    """[nodes + 1] for the root and each node: bit i is set where node i is on its path, itself included."""
    bits = np.uint64(1) << np.arange(topology.nodes, dtype=np.uint64)
    words: npt.NDArray[np.uint64] = (topology.ancestors[:, 1:] * bits).sum(1, dtype=np.uint64)
    return words.view(np.int64)
