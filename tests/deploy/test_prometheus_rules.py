"""The rules are valid, behave as their tests say, and every alert leads to a page that says what to do."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.deploy.metrics_table import documented
from tests.deploy.promql import metric_names

DEPLOY = Path(__file__).parents[2] / "deploy"
PROMETHEUS = DEPLOY / "prometheus"
RULES = [
    rule
    for path in sorted((PROMETHEUS / "rules").glob("*.yml"))
    for group in yaml.safe_load(path.read_text())["groups"]
    for rule in group["rules"]
]
ALERTS = [rule for rule in RULES if "alert" in rule]


def promtool(*arguments: str | Path) -> str:
    """Run promtool (Debian's package `prometheus`); its output, and a failure where it says so."""
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, timeout=120, cwd=PROMETHEUS)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_promtool_accepts_the_configuration() -> None:
    assert "is valid" in promtool("check", "config", "prometheus.yml")


@pytest.mark.prove
@pytest.mark.parametrize("path", sorted((PROMETHEUS / "tests").glob("*.yml")), ids=lambda path: path.stem)
def test_the_rules_behave_as_their_tests_say(path: Path) -> None:
    assert "SUCCESS" in promtool("test", "rules", path)


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_an_alert_says_how_bad_it_is_and_what_to_do(rule: dict[str, dict[str, str]]) -> None:
    assert rule["labels"]["severity"] in {"page", "ticket", "info"}
    page, anchor = rule["annotations"]["runbook_url"].split("#")
    headings = re.findall(r"^## (\w+)$", (DEPLOY.parent / page).read_text(), re.MULTILINE)
    assert anchor in {heading.lower() for heading in headings}
    assert anchor == str(rule["alert"]).lower()
    assert {"summary", "description"} <= rule["annotations"].keys()


def test_every_alert_is_tested_and_every_page_of_the_runbook_has_its_alert() -> None:
    names = {rule["alert"] for rule in ALERTS}
    tests = "".join(path.read_text() for path in (PROMETHEUS / "tests").glob("*.yml"))
    assert names == {name for name in names if f"alertname: {name}" in tests}
    assert names == set(re.findall(r"^## (\w+)$", (DEPLOY / "RUNBOOK.md").read_text(), re.MULTILINE))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.get("alert") or rule["record"])
def test_a_rule_reads_only_metrics_that_exist(rule: dict[str, str]) -> None:
    known = {*documented("voicepace_"), *documented("vllm:"), "up"} | {rule.get("record") for rule in RULES}
    assert metric_names(rule["expr"])
    assert metric_names(rule["expr"]) <= known
