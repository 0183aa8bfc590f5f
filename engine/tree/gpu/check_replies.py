"""Whole replies of a small decoder, plainly and through trees: are they the same tokens?

Kernel, walk and compaction work together here as in an engine: trees of several shapes and lengths next to prompts that
are read in pieces, the true tokens on paths that are mostly not the principal one, each step built on the keys and values
that the last one moved.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from engine.tree.gpu.check_cases import PAGE
from engine.tree.gpu.check_model import TINY, Decoder, Rows
from engine.tree.gpu.compaction_kernel import Compaction
from engine.tree.gpu.device_walk import DeviceWalk
from engine.tree.topology import Topology

_TREES = (
    Topology.from_paths([(0,), (1,), (2,), (0, 0), (0, 1), (1, 0), (2, 0), (0, 0, 0), (1, 0, 0), (1, 0, 0, 0)]),
    Topology.from_paths([(0,), (0, 0), (1,), (1, 0), (1, 1), (1, 1, 0)]),
)
# A prompt is read in pieces of this share of the longest one.
_PIECES = 5


@dataclass(slots=True)
class _Caller:
    """One request.

    Attributes:
        prompt: token ids.
        tree: that its drafts are the first nodes of.
        context: tokens in the cache.
        reply: so far.
    """

    prompt: list[int]
    tree: Topology
    context: int = 0
    reply: list[int] = field(default_factory=list)


class _Lab:
    """Callers over one decoder, each with pages of its own."""

    def __init__(self, decoder: Decoder, callers: Sequence[_Caller], length: int, processors: int, device: str) -> None:
        self._decoder, self._callers, self._processors = decoder, callers, processors
        pages = -(-length // PAGE)
        self.tables = torch.arange(len(callers) * pages, dtype=torch.int32).view(len(callers), pages).flip(1).to(device)
        self.device = device

    def run(self, work: Sequence[tuple[int, list[int], Topology | None]]) -> list[list[int]]:
        """One step of some callers with these tokens; returns the most probable token after each."""
        numbers = [number for number, _, _ in work]
        counts = [len(tokens) for _, tokens, _ in work]
        contexts = [self._callers[number].context for number in numbers]
        trees = {row: tree for row, (_, _, tree) in enumerate(work) if tree is not None}
        shape = self._decoder.sizes.attention
        rows = Rows.of(counts, contexts, self.tables[numbers], trees, shape, self._processors)
        tokens = torch.tensor([token for _, tokens, _ in work for token in tokens], device=self.device)
        best = self._decoder.best(self._decoder.forward(tokens, rows.positions, rows.slots, rows.step))
        return [part.tolist() for part in best.split(counts)]


def _plain(lab: _Lab, callers: Sequence[_Caller], tokens: int) -> list[list[int]]:
    for number, caller in enumerate(callers):
        caller.reply = [lab.run([(number, caller.prompt, None)])[0][-1]]
        caller.context = len(caller.prompt)
    while len(callers[0].reply) < tokens:
        after = lab.run([(number, [caller.reply[-1]], None) for number, caller in enumerate(callers)])
        for caller, (token,) in zip(callers, after, strict=True):
            caller.reply.append(token)
            caller.context += 1
    return [caller.reply for caller in callers]


def _drafts(chance: random.Random, caller: _Caller, truth: list[int], vocabulary: int) -> tuple[list[int], Topology]:
    """Tokens for some first nodes of the tree, the true ones on a random path."""
    left = len(truth) - len(caller.reply)
    tree = caller.tree.prefix(
        chance.choice([caller.tree.nodes, caller.tree.nodes, chance.randint(1, caller.tree.nodes)])
    )
    path = [row for row in chance.choice(tree.lineages) if row][: max(0, left - 1)]
    known = truth[len(caller.reply) :]
    drafts = [(known[0] + row) % vocabulary for row in range(1, tree.nodes + 1)]
    for row, token in zip(path, known, strict=False):
        drafts[row - 1] = token
    return drafts, tree


def replies(device: str, processors: int, lengths: Sequence[int], tokens: int) -> dict[str, Any]:
    """Replies with and without trees.

    Args:
        device: to run on.
        processors: of it; more of them cut contexts into more parts.
        lengths: of the prompts.
        tokens: of each reply.

    Returns:
        Whether all replies are the same, and counts that say whether everything that matters came up.
    """
    chance = random.Random(5)
    room = max(lengths) + tokens + 2 * _TREES[0].nodes + PAGE
    pages = len(lengths) * -(-room // PAGE)
    decoder = Decoder(TINY, torch.float32, device, pages)
    piece = -(-max(lengths) // _PIECES)
    vocabulary = decoder.sizes.vocabulary
    prompts = [[chance.randrange(vocabulary) for _ in range(length)] for length in lengths]
    callers = [_Caller(prompt, _TREES[number % 2]) for number, prompt in enumerate(prompts)]
    truth = _plain(_Lab(decoder, callers, room, processors, device), callers, tokens)
    callers = [_Caller(prompt, _TREES[number % 2]) for number, prompt in enumerate(prompts)]
    for cache in decoder.caches:
        cache.zero_()
    lab = _Lab(decoder, callers, room, processors, device)
    compaction = Compaction(decoder.caches)
    walks = {tree: DeviceWalk(tree, device) for tree in _TREES}
    seen = dict.fromkeys(("steps", "mixed_steps", "cut_trees", "other_paths", "moves"), 0)
    while any(len(caller.reply) < tokens for caller in callers):
        work: list[tuple[int, list[int], Topology | None]] = []
        for number, caller in enumerate(callers):
            if caller.context < len(caller.prompt):
                work.append((number, caller.prompt[caller.context : caller.context + piece], None))
            elif len(caller.reply) < tokens:
                drafts, tree = _drafts(chance, caller, truth[number], vocabulary)
                work.append((number, [caller.reply[-1], *drafts], tree))
        seen["steps"] += 1
        seen["mixed_steps"] += len({tree is None for _, _, tree in work}) == 2
        for (number, given, cut), best in zip(work, lab.run(work), strict=True):
            caller = callers[number]
            if cut is None:
                caller.context += len(given)
                if caller.context == len(caller.prompt):
                    caller.reply.append(best[-1])
                continue
            _accept(caller, lab.tables[number : number + 1], walks[caller.tree], compaction, given[1:], best, seen)
    same = all(caller.reply[:tokens] == reply for caller, reply in zip(callers, truth, strict=True))
    return {"processors": processors, "same": same, **seen, "ok": same and all(seen.values())}


def _accept(
    caller: _Caller,
    table: torch.Tensor,
    walk: DeviceWalk,
    compaction: Compaction,
    drafts: list[int],
    best: list[int],
    seen: dict[str, int],
) -> None:
    nodes, device = caller.tree.nodes, table.device
    missing = nodes - len(drafts)
    walked = walk.walk(
        torch.tensor([drafts + [0] * missing], device=device),
        torch.tensor([best + [0] * missing], device=device),
        torch.tensor([len(drafts)], device=device),
    )
    compaction.move(walked.paths, torch.tensor([caller.context], dtype=torch.int32, device=device), table)
    path = [row for row in walked.paths[0].tolist() if row]
    seen["cut_trees"] += missing > 0
    seen["other_paths"] += bool(path) and path[-1] > caller.tree.principal
    seen["moves"] += path != list(range(1, len(path) + 1))
    caller.reply += [token for token in walked.tokens[0].tolist() if token >= 0]
    caller.context += 1 + len(path)
