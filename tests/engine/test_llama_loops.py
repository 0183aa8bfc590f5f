"""Which steps the compiled loops take whole; without an engine."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from engine.llama_loops import causal_spans, spans_of
from engine.native.paged_attention import MOST_ROWS, Span, causal


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


def test_a_long_piece_of_a_prompt_is_several_spans() -> None:
    rows = 2 * MOST_ROWS + 7
    known = metadata(
        query_start_loc=torch.tensor([0, 1, 1 + rows]),
        seq_lens=torch.tensor([10, 4 + rows]),
        num_actual_tokens=1 + rows,
    )
    found = spans_of(known, 1 + rows)
    assert found is not None
    assert [(span.row, span.begin, span.visible, len(span.seen)) for span in found] == [
        (0, 0, 10, 1),
        (1, 1, 5, MOST_ROWS),
        (1, 1 + MOST_ROWS, 5 + MOST_ROWS, MOST_ROWS),
        (1, 1 + 2 * MOST_ROWS, 5 + 2 * MOST_ROWS, 7),
    ]
    assert all(span.seen == tuple((1 << place) - 1 for place in range(len(span.seen))) for span in found)
    assert [span.length for span in found] == [10, 4 + MOST_ROWS, 4 + 2 * MOST_ROWS, 4 + rows]


def test_what_is_known_of_a_request_stands_in_its_place() -> None:
    tree = Span(1, 1, 5, (0, 0b1, 0b10))
    assert causal_spans(metadata(), {1: tree}) == [Span(0, 0, 10, (0,)), tree]
    assert causal_spans(metadata(), {}) == [*causal(0, 0, 1, 10), *causal(1, 1, 4, 7)]
    assert tree.length == 6


def test_what_was_said_before_counts() -> None:
    spans = [Span(0, 0, 5, (0, 0b1, 0b10))]
    assert spans_of(metadata(spans=spans, max_query_len=3), 3) is spans


@pytest.mark.parametrize(
    "changes",
    [
        {"num_actual_tokens": 3},
        {"causal": False},
        {"dynamic_causal": torch.ones(2)},
        {"trees": object()},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_other_steps_are_left_to_vllm(changes: dict[str, Any]) -> None:
    assert spans_of(metadata(**changes), 4) is None
