"""The dashboards are what the code builds, ask questions, and read metrics that exist."""

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from deploy.grafana.boards.panel import Board, Panel
from deploy.grafana.dashboards import BOARDS, FOLDER, rendered
from tests.deploy.metrics_table import METRICS_PAGE, documented, scraped
from tests.deploy.promql import metric_names

DEPLOY = Path(__file__).parents[2] / "deploy"
PANELS = [panel for board in BOARDS for panel in board.panels]
RECORDED = {
    rule["record"]
    for group in yaml.safe_load((DEPLOY / "prometheus" / "rules" / "recording.yml").read_text())["groups"]
    for rule in group["rules"]
}
PROCESS = {"process_cpu_seconds_total", "process_resident_memory_bytes"}
DCGM = scraped(Path(__file__).with_name("dcgm_scrape_l4.txt").read_text(), "DCGM_")


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.uid)
def test_the_committed_json_is_what_the_code_builds(board: Board) -> None:
    assert (FOLDER / f"{board.uid}.json").read_text() == rendered(board)


def test_no_dashboard_is_left_over() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == {board.uid for board in BOARDS}


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel.question)
def test_a_panel_asks_a_question_and_says_how_to_read_the_answer(panel: Panel) -> None:
    assert panel.question.endswith("?")
    assert panel.unit
    assert len(panel.description) > 40
    assert (panel.right_unit is not None) == any(query.right_axis for query in panel.queries)


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel.question)
def test_a_panel_reads_only_metrics_that_exist(panel: Panel) -> None:
    known = set(DCGM) if panel.needs_gpu else {*documented("voicepace_"), *documented("vllm:"), *RECORDED, *PROCESS}
    for query in panel.queries:
        assert metric_names(query.expr)
        assert metric_names(query.expr) <= known


def test_what_is_read_of_a_gpu_is_in_a_recorded_scrape_as_it_is_read() -> None:
    page = set(re.findall(r"DCGM_\w+", METRICS_PAGE.read_text()))
    queries = [query for panel in PANELS if panel.needs_gpu for query in panel.queries]
    assert page == {name for query in queries for name in metric_names(query.expr)}
    for name in page:
        kind, labels = DCGM[name]
        assert kind == "gauge"
        assert {label for query in queries for label in re.findall(r"{{(\w+)}}", query.legend)} <= labels


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.uid)
def test_panels_fill_the_grid_without_overlap(board: Board) -> None:
    taken: set[tuple[int, int]] = set()
    ids = []
    for panel in json.loads(rendered(board))["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken
        assert place["x"] + place["w"] <= 24
        taken |= cells
        ids.append(panel["id"])
    assert len(ids) == len(set(ids))


def test_promtool_can_read_every_query(tmp_path: Path) -> None:
    queries = [query.filled() for panel in PANELS for query in panel.queries]
    rules = [{"record": f"query:{number}", "expr": expr} for number, expr in enumerate(queries)]
    path = tmp_path / "queries.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    done = subprocess.run(["promtool", "check", "rules", path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_rules_feed_a_dashboard_or_an_alert() -> None:
    alerts = (DEPLOY / "prometheus" / "rules" / "alerts.yml").read_text()
    queries = "".join(query.expr for panel in PANELS for query in panel.queries)
    assert {name for name in RECORDED if name not in alerts + queries} == set()


def test_grafana_is_told_where_dashboards_and_data_are() -> None:
    provisioning = DEPLOY / "grafana" / "provisioning"
    provider = yaml.safe_load((provisioning / "dashboards" / "voicepace.yml").read_text())["providers"][0]
    compose = yaml.safe_load((DEPLOY.parent / "compose.yaml").read_text())
    mounts = {mount.split(":")[1]: mount.split(":")[0] for mount in compose["services"]["grafana"]["volumes"]}
    assert (DEPLOY.parent / mounts[provider["options"]["path"]]).resolve() == FOLDER
    source = yaml.safe_load((provisioning / "datasources" / "prometheus.yml").read_text())["datasources"][0]
    assert source["url"] == "http://prometheus:9090"
    assert "prometheus" in compose["services"]
