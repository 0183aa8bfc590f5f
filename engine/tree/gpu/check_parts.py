"""What the check proves of the single parts: each against something plainer that is known to be right."""

import random
from collections.abc import Sequence
from typing import Any

import torch

from engine.heads.architectures import SequentialHeads, build
from engine.heads.checkpoint import load
from engine.heads.config import HeadsConfig
from engine.heads.drafting import Drafting
from engine.heads.loss import Target
from engine.heads.names import shipped_path
from engine.tree.choice import chosen, known_shares
from engine.tree.gpu.check_cases import PAGE, Attention, Cache, Request
from engine.tree.gpu.check_model import Sizes
from engine.tree.gpu.compaction_kernel import Compaction
from engine.tree.gpu.device_walk import DeviceWalk
from engine.tree.gpu.row_tiles import AttentionShape
from engine.tree.topology import Topology
from engine.tree.walk import greedy_path

# Largest difference from float64 of a weighted mean of normal numbers, by what the type rounds away.
ALLOWED = {torch.float32: 5e-6, torch.float16: 4e-3, torch.bfloat16: 3e-2}


def tree_of(nodes: int, shipped: bool = False) -> Topology:
    """The tree of this many nodes that the shipped heads, or heads of which nothing is known, would draft."""
    return chosen(str(nodes), known_shares("shipped") if shipped else None)


def attention_is_exact(
    cases: Sequence[tuple[Sizes, torch.dtype]], device: str, processors: Sequence[int], longest: int
) -> list[dict[str, Any]]:
    """Trees whole and cut, prompts and plain rows in one step, contexts that end inside pages."""
    whole, wide = tree_of(16), tree_of(32)
    requests = [
        Request(longest + 5, 17, whole),
        Request(32, 17),
        Request(7, 6, whole.prefix(5)),
        Request(longest // 2, 1),
        Request(0, 40),
        Request(0, 9, whole.prefix(8)),
        Request(longest // 3 + 1, 33, wide),
        Request(longest - 1, 2, wide.prefix(1)),
    ]
    rows = []
    for sizes, dtype in cases:
        shape = _typed(sizes.attention, dtype)
        cache = Cache(sum(request.pages for request in requests) + 1, shape, dtype, device)
        for count in processors:
            case = Attention(cache, requests, count)
            case.output.fill_(float("nan"))
            case.run()
            largest, usual = case.errors()
            rows.append(
                {
                    "model": sizes.name,
                    "type": str(dtype).removeprefix("torch."),
                    "parts": case.step.parts,
                    "largest": largest,
                    "rms": usual,
                    "ok": largest <= ALLOWED[dtype],
                }
            )
    return rows


def _typed(shape: AttentionShape, dtype: torch.dtype) -> AttentionShape:
    return AttentionShape(shape.query_heads, shape.kv_heads, shape.head_size, dtype.itemsize)


def heads_of(
    sizes: Sizes, dtype: torch.dtype, device: str, shipped: bool, made_on: str = "cpu"
) -> tuple[SequentialHeads, Target]:
    """Sequential heads: the shipped ones, or untrained ones of a size that suits the model; its matrices are random.

    Args:
        sizes: of the model.
        dtype: of all matrices.
        device: to be on.
        shipped: which heads.
        made_on: device whose random numbers are used; they differ by kind.
    """
    torch.manual_seed(17)
    own: tuple[torch.Tensor, ...] = ()
    if shipped:
        checkpoint = load(shipped_path("sequential"))
        heads, token_map, own = checkpoint.heads, checkpoint.token_map, checkpoint.own
    else:
        config = HeadsConfig("sequential", 4, sizes.hidden, sizes.hidden, 1, min(16384, sizes.vocabulary))
        heads = build(config).requires_grad_(False)
        token_map = torch.randperm(sizes.vocabulary)[: config.draft_vocabulary]
    vocabulary, embedding = (
        torch.randn(sizes.vocabulary, sizes.hidden, device=made_on).mul_(sizes.hidden**-0.5).to(device, dtype)
        for _ in range(2)
    )
    own = tuple(matrix.to(device, dtype) for matrix in own)
    return heads.to(device=device, dtype=dtype), Target.of(vocabulary, embedding, token_map.to(device), own)


def drafting_is_exact(sizes: Sizes, tree: Topology, device: str, shipped: bool, batch: int = 4) -> dict[str, Any]:
    """The heads in float32 on the device draft the tokens that they draft in float64 on the CPU."""
    hidden = torch.randn(batch, sizes.hidden, generator=torch.Generator().manual_seed(23))
    bonus = torch.arange(1, batch + 1)
    expected = Drafting(*heads_of(sizes, torch.float64, "cpu", shipped), tree).draft(hidden.double(), bonus)
    there = Drafting(*heads_of(sizes, torch.float32, device, shipped), tree)
    differ = int((expected != there.draft(hidden.to(device), bonus.to(device)).cpu()).sum())
    return {"model": sizes.name, "tokens": expected.numel(), "differ": differ, "ok": differ == 0}


def walk_is_exact(tree: Topology, device: str, requests: int = 256) -> dict[str, Any]:
    """The walk on the device takes the paths of the plain one, cut trees and equal siblings included."""
    chance = random.Random(29)
    drafts = [[chance.randrange(3) for _ in range(tree.nodes)] for _ in range(requests)]
    best = [[chance.randrange(3) for _ in range(tree.nodes + 1)] for _ in range(requests)]
    drafted = [chance.randint(1, tree.nodes) for _ in range(requests)]
    walked = DeviceWalk(tree, device).walk(*(torch.tensor(lists, device=device) for lists in (drafts, best, drafted)))
    differ, taken = 0, 0
    for row, path in enumerate(walked.paths.tolist()):
        expected = greedy_path(tree.prefix(drafted[row]), drafts[row], best[row])
        taken += len(expected)
        differ += [node for node in path if node] != expected
    return {
        "nodes": tree.nodes,
        "requests": requests,
        "accepted": taken,
        "differ": differ,
        "ok": not differ and taken > 0,
    }


def compaction_is_exact(shape: AttentionShape, dtype: torch.dtype, device: str, layers: int = 3) -> dict[str, Any]:
    """Paths lie in the cache like chains, and nothing else has moved."""
    paths = [[4, 7, 8, 0], [2, 3, 4, 9], [1, 2, 3, 0], [1, 6, 0, 0], [0, 0, 0, 0]]
    contexts = [45, 14, 3, 31, 8]
    caches = [Cache(24, shape, dtype, device).pages for _ in range(layers)]
    tables = torch.randperm(24, generator=torch.Generator().manual_seed(31))[:20].view(5, 4).to(torch.int32)
    expected = [cache.clone() for cache in caches]
    for before, after in zip(caches, expected, strict=True):
        for pages, path, context in zip(tables.tolist(), paths, contexts, strict=True):
            for depth, row in enumerate(path):
                source, target = context + row, context + 1 + depth
                if row:
                    after[pages[target // PAGE], :, target % PAGE] = before[pages[source // PAGE], :, source % PAGE]
    given = torch.tensor(paths, device=device), torch.tensor(contexts, dtype=torch.int32, device=device)
    Compaction(caches).move(*given, tables.to(device))
    same = all(torch.equal(cache, right) for cache, right in zip(caches, expected, strict=True))
    return {"head_size": shape.head_size, "layers": layers, "ok": same}
