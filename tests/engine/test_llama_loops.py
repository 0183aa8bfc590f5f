"""Which steps the compiled loops take whole; without an engine."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from engine.llama_loops import spans_of
from engine.native.paged_attention import MOST_ROWS, Span


def metadata(**changes: Any) -> Any:
    """Of a request that goes on behind 9 tokens, and one with a piece of three behind 4."""
    known: dict[str, Any] = {
        "query_start_loc": torch.tensor([0, 1, 4], dtype=torch.int32),
        "seq_lens": torch.tensor([10, 7], dtype=torch.int32),
        "max_query_len": 3,
        "num_actual_tokens": 4,
        "causal": True,
        "dynamic_causal": None,
    }
    return SimpleNamespace(**known | changes)


def test_each_row_sees_what_is_before_it() -> None:
    assert spans_of(metadata(), 4) == [Span(0, 0, 10, (0,)), Span(1, 1, 5, (0b0, 0b1, 0b11))]


def test_what_was_said_before_counts() -> None:
    spans = [Span(0, 0, 5, (0, 0b1, 0b10))]
    assert spans_of(metadata(spans=spans, max_query_len=3), 3) is spans


@pytest.mark.parametrize(
    "changes",
    [
        {"max_query_len": MOST_ROWS + 1},
        {"num_actual_tokens": 3},
        {"causal": False},
        {"dynamic_causal": torch.ones(2)},
        {"trees": object()},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_other_steps_are_left_to_vllm(changes: dict[str, Any]) -> None:
    assert spans_of(metadata(**changes), 4) is None
