"""A checkpoint in the layout of Medusa's authors, with random weights."""

from pathlib import Path

import torch


def write(path: Path, depth: int, hidden: int, vocabulary: int, prefix: str = "") -> dict[str, torch.Tensor]:
    """Heads of one residual block each, and a vocabulary matrix for each.

    Returns:
        What was written, by its name without the prefix.
    """
    torch.manual_seed(0)
    tensors = {
        f"{head}.{part}": torch.randn(shape) * hidden**-0.5
        for head in range(depth)
        for part, shape in (
            ("0.linear.weight", (hidden, hidden)),
            ("0.linear.bias", (hidden,)),
            ("1.weight", (vocabulary, hidden)),
        )
    }
    torch.save({f"{prefix}{name}": value for name, value in tensors.items()}, path)
    return tensors
