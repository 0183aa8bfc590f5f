"""The tables of deploy/METRICS.md, and the same read from a scrape."""

import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

METRICS_PAGE = Path(__file__).parents[2] / "deploy" / "METRICS.md"
ROW = re.compile(r"^\| `(?P<name>[\w:]+)` \| (?P<type>\w+) \| (?P<unit>[^|]+) \|(?P<labels>[^|]*)\|")
FROM_CLIENT = {"le", "quantile"}

Table = dict[str, tuple[str, frozenset[str]]]


def documented(prefix: str) -> Table:
    """Name to type and labels of every row."""
    rows = (ROW.match(line) for line in METRICS_PAGE.read_text().splitlines())
    return {
        row["name"]: (row["type"], frozenset(filter(None, re.split(r"[,\s]+", row["labels"]))))
        for row in rows
        if row and row["name"].startswith(prefix)
    }


def scraped(text: str, prefix: str) -> Table:
    """The same of an exposition; a counter's name ends in `_total`, as queries write it."""
    table: Table = {}
    for family in text_string_to_metric_families(text):
        if not family.name.startswith(prefix) or family.name.endswith("_created"):
            continue
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = {label for sample in family.samples for label in sample.labels} - FROM_CLIENT
        table[name] = (family.type, frozenset(labels))
    return table
