"""Small heads with random weights and made-up replies, for tests of what does not depend on training."""

import torch

from engine.heads.architectures import MedusaHeads, SequentialHeads, build
from engine.heads.config import Architecture, HeadsConfig
from engine.heads.loss import Rows, Target

VOCABULARY = 40
HIDDEN = 12


def heads(architecture: Architecture, depth: int = 3, seed: int = 0) -> MedusaHeads | SequentialHeads:
    """Every weight random, so that no part is idle."""
    torch.manual_seed(seed)
    built = build(HeadsConfig(architecture, depth, HIDDEN, 16, 2, 24))
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.normal_(0, 0.3)
    return built.requires_grad_(False)


def target(seed: int = 1) -> Target:
    """Separate vocabulary and embedding; 24 of 40 tokens can be drafted, in no order."""
    torch.manual_seed(seed)
    chosen = torch.randperm(VOCABULARY)[:24]
    return Target.of(torch.randn(VOCABULARY, HIDDEN), torch.randn(VOCABULARY, HIDDEN), chosen)


def rows(lengths: tuple[int, ...], seed: int = 2) -> tuple[Rows, list[int]]:
    """Replies of these lengths, and where each starts."""
    torch.manual_seed(seed)
    total = sum(lengths)
    left = torch.cat([torch.arange(length).flip(0) for length in lengths])
    starts = [sum(lengths[:at]) for at in range(len(lengths) + 1)]
    return Rows(torch.randn(total, HIDDEN), torch.randint(VOCABULARY, (total,)), left), starts
