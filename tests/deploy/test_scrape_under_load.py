"""A real Prometheus scrapes the real service under load: every recording rule and every dashboard query returns data."""

from collections.abc import Iterator
from urllib.request import urlopen

import pytest
import yaml

from deploy.grafana.dashboards import BOARDS
from deploy.prometheus.local import RULES, Prometheus
from deploy.prometheus.under_load import under_load
from tests.deploy.metrics_table import documented, scraped

QUERIES = [query for board in BOARDS for panel in board.panels if not panel.needs_gpu for query in panel.queries]
RECORDED = [
    rule for group in yaml.safe_load((RULES / "recording.yml").read_text())["groups"] for rule in group["rules"]
]

pytestmark = [pytest.mark.prove, pytest.mark.engine, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Prometheus, str]]:
    # Trees by the shipped heads, so that there is something to show of both.
    flags = ["--engine.speculation", "medusa_tree", "--server.objective_ratio", "0.99"]
    folder = tmp_path_factory.mktemp("load")
    with under_load(flags, folder, text_calls=2, audio_calls=2, seconds=30) as (prometheus, address):
        yield prometheus, address


@pytest.mark.parametrize("rule", RECORDED, ids=lambda rule: rule["record"] + rule.get("labels", {}).get("quantile", ""))
def test_a_recording_rule_returns_data(watched: tuple[Prometheus, str], rule: dict[str, str]) -> None:
    quantile = rule.get("labels", {}).get("quantile")
    assert watched[0].query(rule["record"] + (f'{{quantile="{quantile}"}}' if quantile else ""))


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.expr[:80])
def test_a_dashboard_query_returns_data(watched: tuple[Prometheus, str], query: object) -> None:
    assert watched[0].query(query.filled(window="5m"))


def test_no_rule_fails(watched: tuple[Prometheus, str]) -> None:
    assert watched[0].rule_errors() == []


def test_the_engine_exports_what_the_table_says(watched: tuple[Prometheus, str]) -> None:
    with urlopen(f"http://{watched[1]}/metrics", timeout=30) as answer:
        engine = scraped(answer.read().decode(), "vllm:")
    table = documented("vllm:")
    assert {name: engine.get(name) for name in table} == table
