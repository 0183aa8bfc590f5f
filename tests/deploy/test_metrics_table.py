"""deploy/METRICS.md says of every metric what a scrape says, and names no other."""

import re

from engine.tree.tally import NAMES
from service.metrics import FIRST_AUDIO_STAGES, MAX_DEPTH, Metrics
from service.protocols.catalog import CATALOG
from tests.deploy.metrics_table import METRICS_PAGE, documented, scraped

TALLY = dict.fromkeys(NAMES, 1.0)


def exercised(metrics: Metrics) -> str:
    """A scrape in which every metric has its labels, under every surface and dialect there is."""
    surfaces = {(entry.surface, entry.name) for entry in CATALOG.values()}
    surfaces |= {(surface, dialect) for surface in ("openai", "openai_paced") for dialect in ("completions", "chat")}
    for surface, dialect in surfaces:
        stream = metrics.stream(surface, dialect)
        stream.first_audio(dict.fromkeys(FIRST_AUDIO_STAGES, 0.1))
        for reason in ("stop", "length", "interrupted", "error"):
            stream.turn_ended(reason)
    metrics.describe(version="1", profile="p", speculation="medusa", objective_ratio=0.99)
    metrics.heads_in_use(2.4)
    metrics.speculation_in_use("medusa_tree", "medusa", "cache layout: pages are laid out in another way")
    metrics.watch_trees(lambda: TALLY)
    return metrics.exposition().decode()


def test_every_metric_of_the_service_is_in_the_table_with_its_type_and_labels() -> None:
    assert documented("voicepace_") == scraped(exercised(Metrics("m")), "voicepace_")


def test_the_series_of_all_dialects_together_stay_under_the_documented_bound() -> None:
    text = exercised(Metrics("m"))
    series = [line for line in text.splitlines() if line.startswith("voicepace_") and "_created" not in line]
    limit = re.search(r"under ([\d,]+) series", METRICS_PAGE.read_text())
    assert limit is not None
    assert len(series) < int(limit[1].replace(",", ""))


def test_depth_is_bounded_however_long_a_burst_is() -> None:
    metrics = Metrics("m")
    metrics.stream("voice", "native").step(None, 5 * MAX_DEPTH)
    depths = {
        sample.labels["depth"]
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name == "voicepace_accepted_total"
    }
    assert depths == {str(depth) for depth in range(1, MAX_DEPTH + 1)}
