"""What steps with trees cost against plain ones, as a whole and by part."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from engine.heads.drafting import Drafting
from engine.tree.gpu.check_cases import Cache, Request
from engine.tree.gpu.check_model import Decoder, Rows, Sizes
from engine.tree.gpu.check_parts import heads_of, tree_of
from engine.tree.gpu.check_timing import per_call_us
from engine.tree.gpu.compaction_kernel import Compaction
from engine.tree.gpu.device_walk import DeviceWalk
from engine.tree.topology import Topology


class _Step:
    """One step of a decoder for a batch of requests, all with the same tree or all plain."""

    def __init__(self, decoder: Decoder, batch: int, context: int, tree: Topology | None, processors: int) -> None:
        device = str(decoder.embedding.device)
        request = Request.verifying(context, tree)
        self._decoder, self._batch = decoder, batch
        order = torch.randperm(len(decoder.caches[0]), generator=torch.Generator().manual_seed(37)).to(torch.int32)
        self._tables = order[: batch * request.pages].view(batch, -1).to(device)
        trees = dict.fromkeys(range(batch), tree) if tree else {}
        counts, contexts = [request.rows] * batch, [context] * batch
        self._rows = Rows.of(counts, contexts, self._tables, trees, decoder.sizes.attention, processors)
        self._contexts = torch.tensor(contexts, dtype=torch.int32, device=device)
        self._tokens = torch.randint(decoder.sizes.vocabulary, (batch, request.rows), device=device)
        self._requests = torch.arange(batch, device=device)
        self._walk = DeviceWalk(tree, device) if tree else None

    def products(self) -> None:
        """The matrix products alone."""
        self._decoder.products(self._tokens.numel())

    def forward(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Hidden states and the most probable token after each row."""
        rows = self._rows
        hidden = self._decoder.forward(self._tokens.view(-1), rows.positions, rows.slots, rows.step)
        return hidden, self._decoder.best(hidden)

    def whole(self, drafting: Drafting, compaction: Compaction) -> None:
        """With the walk, the moves and the next drafts."""
        hidden, best = self.forward()
        best = best.view(self._batch, -1)
        assert self._walk is not None
        walked = self._walk.walk(self._tokens[:, 1:], best)
        compaction.move(walked.paths, self._contexts, self._tables)
        last = hidden.view(self._batch, -1, hidden.shape[-1])[self._requests, walked.last]
        drafting.draft(last, best.gather(1, walked.last[:, None])[:, 0])


def step_times(
    sizes: Sizes,
    batches: Sequence[int],
    contexts: Sequence[int],
    trees: Sequence[int],
    device: str,
    processors: int,
    shipped: bool,
) -> list[dict[str, Any]]:
    """Whole steps with trees against plain ones, from the same weights.

    Returns:
        Per case the milliseconds of the matrix products alone, of the forward pass with the choice of tokens, and of
        the whole step; as ratios to the plain step of that batch and context.
    """
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    pages = max(batches) * Request.verifying(max(contexts), tree_of(max(trees))).pages
    decoder = Decoder(sizes, dtype, device, pages)
    compaction = Compaction(decoder.caches)
    drafts = heads_of(sizes, dtype, device, shipped, made_on=device)
    draftings = {nodes: Drafting(*drafts, tree_of(nodes, shipped)) for nodes in trees}
    rows = []
    for batch in batches:
        for context in contexts:
            plain = _timed(_Step(decoder, batch, context, None, processors), device)
            rows.append({"model": sizes.name, "batch": batch, "context": context, "nodes": 0, **plain})
            for nodes in trees:
                step = _Step(decoder, batch, context, tree_of(nodes, shipped), processors)
                times = _timed(step, device)
                times["step_ms"] = per_call_us([partial(step.whole, draftings[nodes], compaction)], device) / 1e3
                ratios = {
                    "products_ratio": times["products_ms"] / plain["products_ms"],
                    "forward_ratio": times["forward_ms"] / plain["forward_ms"],
                    "step_ratio": times["step_ms"] / plain["forward_ms"],
                }
                rows.append(
                    {"model": sizes.name, "batch": batch, "context": context, "nodes": nodes, **times, **ratios}
                )
    return rows


def _timed(step: _Step, device: str) -> dict[str, float]:
    return {
        "products_ms": per_call_us([step.products], device) / 1e3,
        "forward_ms": per_call_us([step.forward], device) / 1e3,
    }


def part_times(
    sizes: Sizes, batches: Sequence[int], trees: Sequence[int], device: str, shipped: bool
) -> list[dict[str, Any]]:
    """What a tree adds to a forward pass: drafting, the walk with the choice of tokens, and the most moves there can be."""
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    drafts = heads_of(sizes, dtype, device, shipped, made_on=device)
    rows = []
    for batch in batches:
        request = Request.verifying(40, tree_of(max(trees)))
        caches = [Cache(batch * request.pages, sizes.attention, dtype, device) for _ in range(sizes.layers)]
        compaction = Compaction([cache.pages for cache in caches])
        tables = caches[0].tables([request] * batch)
        contexts = torch.full((batch,), 40, dtype=torch.int32, device=device)
        for nodes in trees:
            tree = tree_of(nodes, shipped)
            deepest = max(tree.lineages, key=lambda rows: (len(rows), rows))[1:]
            path = torch.zeros(batch, tree.max_depth, dtype=torch.long, device=device)
            path[:, : len(deepest)] = torch.tensor(deepest, device=device)
            hidden = torch.randn(batch, sizes.hidden, device=device, dtype=dtype)
            bonus = torch.arange(batch, device=device)
            best = torch.randint(sizes.vocabulary, (batch, nodes + 1), device=device)
            calls: dict[str, Callable[[], object]] = {
                "heads_us": partial(Drafting(*drafts, tree).draft, hidden, bonus),
                "walk_us": partial(DeviceWalk(tree, device).walk, best[:, 1:], best),
                "moves_us": partial(compaction.move, path, contexts, tables),
            }
            times = {name: per_call_us([call], device) for name, call in calls.items()}
            rows.append({"model": sizes.name, "batch": batch, "nodes": nodes, **times})
    return rows
