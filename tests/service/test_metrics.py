"""Metrics by exact bucket counts from known traces."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from service.metrics import TIT_BUCKETS_S, Metrics

LABELS = {"surface": "voice", "dialect": "native", "model": "m"}


def buckets(metrics: Metrics, name: str) -> dict[str, float]:
    """Non-cumulative counts of one histogram by upper edge, empty buckets left out."""
    families = {f.name: f for f in text_string_to_metric_families(metrics.exposition().decode())}
    edges: dict[str, float] = {}
    below = 0.0
    for sample in families[name].samples:
        if sample.name.endswith("_bucket"):
            if sample.value > below:
                edges[sample.labels["le"]] = sample.value - below
            below = sample.value
    return edges


def value(metrics: Metrics, name: str, **labels: str) -> float:
    found = metrics.registry.get_sample_value(name, {**LABELS, **labels})
    assert found is not None
    return found


def test_20_ms_is_an_exact_edge() -> None:
    assert 0.020 in TIT_BUCKETS_S
    assert list(TIT_BUCKETS_S) == sorted(set(TIT_BUCKETS_S))


def test_a_burst_counts_as_its_tokens_in_engine_tit_and_once_in_step_gap() -> None:
    metrics = Metrics("m")
    stream = metrics.stream("voice", "native")
    for gap_s, tokens in ((None, 1), (0.030, 3), (0.044, 2), (0.020, 1)):
        stream.step(gap_s, tokens)
    assert buckets(metrics, "voicepace_step_gap_seconds") == {"0.02": 1, "0.03": 1, "0.045": 1}
    assert buckets(metrics, "voicepace_engine_tit_seconds") == {"0.01": 3, "0.02": 1, "0.0225": 2}
    assert buckets(metrics, "voicepace_acceptance_length") == {"1.0": 2, "2.0": 1, "3.0": 1}
    assert value(metrics, "voicepace_accepted_total", depth="1") == 2
    assert value(metrics, "voicepace_accepted_total", depth="2") == 1
    assert value(metrics, "voicepace_accepted_total", depth="3") == 0


def test_a_gap_of_exactly_the_objective_is_no_violation() -> None:
    metrics = Metrics("m")
    stream = metrics.stream("voice", "native")
    for gap_s in (0.020, 0.0201, 0.100):
        stream.delivered(gap_s)
    assert value(metrics, "voicepace_slo_violations_total") == 2
    assert value(metrics, "voicepace_starved_seconds_total") == pytest.approx(0.0801)


def test_unpaced_streams_have_no_objective() -> None:
    metrics = Metrics("m")
    metrics.stream("voice", "native").delivered(0.5, objective=False)
    assert value(metrics, "voicepace_slo_violations_total") == 0
    assert value(metrics, "voicepace_delivered_gap_seconds_count") == 1


@given(st.lists(st.tuples(st.floats(0.0, 3.0), st.integers(1, 16)), max_size=30))
def test_every_token_but_the_first_step_is_one_sample(steps: list[tuple[float, int]]) -> None:
    metrics = Metrics("m")
    stream = metrics.stream("voice", "native")
    for gap_s, tokens in steps:
        stream.step(gap_s, tokens)
    assert value(metrics, "voicepace_engine_tit_seconds_count") == sum(tokens for _, tokens in steps)
    assert value(metrics, "voicepace_step_gap_seconds_count") == len(steps)
    depths = Counter(depth for _, tokens in steps for depth in range(1, tokens))
    for depth in range(1, 16):
        assert value(metrics, "voicepace_accepted_total", depth=str(depth)) == depths[depth]


def test_every_refusal_reason_starts_at_zero() -> None:
    assert Metrics("m").registry.get_sample_value("voicepace_calls_refused_total", {"reason": "capacity"}) == 0
