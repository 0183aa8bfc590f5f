"""The repaired part of the CPU rejection sampler, without an engine."""

from types import SimpleNamespace

import pytest
import torch

from engine import cpu_sampling


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.int64])
def test_every_draft_token_gets_its_requests_value(dtype: torch.dtype) -> None:
    values = torch.tensor([5, 7, 9], dtype=dtype)
    sums = torch.tensor([2, 2, 5], dtype=torch.int32)
    spread = cpu_sampling.expand_batch_to_tokens(values, sums, 5)
    assert spread.dtype == dtype
    assert spread.tolist() == [5, 5, 9, 9, 9]
    assert cpu_sampling.expand_batch_to_tokens(values, sums, 5, 9, 1).tolist() == [5, 5, 1, 1, 1]
    assert values.tolist() == [5, 7, 9]


def test_a_step_without_drafts_has_no_values() -> None:
    sums = torch.tensor([0, 0], dtype=torch.int32)
    assert cpu_sampling.expand_batch_to_tokens(torch.tensor([0.5, 1.0]), sums, 0).tolist() == []
    metadata = SimpleNamespace(all_greedy=False, temperature=torch.ones(2), top_k=torch.tensor([3, 5]), top_p=None)
    logits = torch.empty(0, 11)
    assert cpu_sampling.apply_sampling_constraints(logits, sums, metadata).shape == (0, 11)


def test_installed_each_draft_row_keeps_its_own_top_k(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("expand_batch_to_tokens", "apply_sampling_constraints"):
        monkeypatch.setattr(cpu_sampling.rejection_sampler, name, getattr(cpu_sampling.rejection_sampler, name))
    cpu_sampling.install()
    metadata = SimpleNamespace(
        all_greedy=False,
        temperature=torch.tensor([0.5, 2.0]),
        top_k=torch.tensor([1, 3], dtype=torch.int32),
        top_p=None,
    )
    logits = torch.arange(10, dtype=torch.float32).repeat(3, 1)
    sums = torch.tensor([2, 3], dtype=torch.int32)
    kept = cpu_sampling.rejection_sampler.apply_sampling_constraints(logits, sums, metadata)
    assert torch.isfinite(kept).sum(dim=1).tolist() == [1, 1, 3]
    assert kept[:, 9].tolist() == [18.0, 18.0, 4.5]
