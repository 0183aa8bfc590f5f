"""What a scrape says of trees."""

from prometheus_client.parser import text_string_to_metric_families

from engine.tree.tally import NAMES
from service.metrics import Metrics


def samples(metrics: Metrics) -> dict[tuple[str, ...], float]:
    return {
        (sample.name, *(value for name, value in sorted(sample.labels.items()) if name != "model")): sample.value
        for family in text_string_to_metric_families(metrics.exposition().decode())
        for sample in family.samples
        if sample.name.startswith(("voicepace_tree_", "voicepace_speculation_fallback"))
    }


def test_a_scrape_reads_the_counts_as_they_are_now() -> None:
    tally = dict.fromkeys(NAMES, 0.0)
    metrics = Metrics("m")
    metrics.watch_trees(lambda: tally)
    tally |= {"trees": 4, "tokens": 9, "depth_2": 3, "draft_s": 0.5, "size": 16}
    seen = samples(metrics)
    assert seen["voicepace_tree_verified_total",] == 4
    assert seen["voicepace_tree_tokens_total",] == 9
    assert seen["voicepace_tree_accepted_total", "2"] == 3
    assert seen["voicepace_tree_seconds_total", "draft"] == 0.5
    assert seen["voicepace_tree_size",] == 16
    tally["trees"] = 5
    assert samples(metrics)["voicepace_tree_verified_total",] == 5


def test_an_engine_without_trees_exports_nothing_of_them() -> None:
    metrics = Metrics("m")
    metrics.watch_trees(lambda: None)
    assert samples(metrics) == {}


def test_a_fallback_is_said_while_it_holds() -> None:
    metrics = Metrics("m")
    metrics.speculation_in_use("medusa_tree", "medusa", "sampler: x")
    assert samples(metrics) == {("voicepace_speculation_fallback", "medusa_tree", "medusa", "sampler: x"): 1}
    metrics.speculation_in_use("", None, "")
    assert samples(metrics) == {}
