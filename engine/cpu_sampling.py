"""Repairs of vLLM's rejection sampler on the CPU, where drafts are checked against sampled tokens.

- A request's temperature, `top_k` and `top_p` are spread over its draft tokens by a CPU kernel that fills a copy of the
  result and drops it, so drafts were checked with whatever the memory held: wrong samples, or an index that ends the
  process.
- A step without drafts (every prompt's first one) has no rows, and the largest `top_k` of none ends the process.

Loaded in the engine's process only.
"""

from typing import Any

import torch
from vllm.v1.sample import rejection_sampler

_theirs = rejection_sampler.apply_sampling_constraints


def expand_batch_to_tokens(
    x: torch.Tensor, cu_num_tokens: torch.Tensor, num_tokens: int, replace_from: int = 0, replace_to: int = 0
) -> torch.Tensor:
    """One value per request, repeated for each of its tokens.

    Args:
        x: [batch] values.
        cu_num_tokens: [batch] running sums of the tokens of each request.
        num_tokens: the last of these sums.
        replace_from: this value becomes `replace_to`.
        replace_to: see `replace_from`.

    Returns:
        [num_tokens] values.
    """
    counts = torch.diff(cu_num_tokens, prepend=cu_num_tokens.new_zeros(1))
    values = x.masked_fill(x == replace_from, replace_to)
    return torch.repeat_interleave(values, counts, output_size=num_tokens)


def apply_sampling_constraints(logits: torch.Tensor, *args: Any) -> torch.Tensor:
    """As vLLM's; without rows there is nothing to constrain."""
    return logits if logits.shape[0] == 0 else _theirs(logits, *args)


def install() -> None:
    """Put the repairs in vLLM's place, in this process."""
    rejection_sampler.expand_batch_to_tokens = expand_batch_to_tokens
    rejection_sampler.apply_sampling_constraints = apply_sampling_constraints
