import re
from pathlib import Path

import pytest

from service.loadtest import objective
from service.loadtest.figures import figures
from service.loadtest.objective import AUDIO, TEXT, BadObjective, Limit, judge, parse_objective
from service.loadtest.record import WorkerResult
from service.loadtest.scenario import Scenario

FIGURES = {"ttft_ms": {"p95": 300.0, "p99": None}, "within_objective": 0.991, "calls": {"refused": 0}}


def test_limits_of_a_file() -> None:
    text = "[at_most]\nttft_ms.p95 = 800\ncalls.refused = 0\n[at_least]\nwithin_objective = 0.99\n"
    assert parse_objective(text) == (
        Limit("ttft_ms.p95", 800.0, False),
        Limit("calls.refused", 0.0, False),
        Limit("within_objective", 0.99, True),
    )
    assert all(verdict.met for verdict in judge(parse_objective(text), FIGURES))


@pytest.mark.parametrize(
    ("limit", "met"),
    [
        (Limit("ttft_ms.p95", 300, False), True),
        (Limit("ttft_ms.p95", 299.9, False), False),
        (Limit("within_objective", 0.991, True), True),
        (Limit("within_objective", 0.992, True), False),
        (Limit("ttft_ms.p99", 1e9, False), False),  # not measured is not met
    ],
)
def test_verdict(limit: Limit, met: bool) -> None:
    assert judge((limit,), FIGURES)[0].met is met


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("at_most = ", "not TOML"),
        ("[most]\nx = 1", "most: only the tables"),
        ("[at_most]\nttft_ms.p95 = '1'", "at_most.ttft_ms.p95: must be a number"),
        ("[at_most]\nttft_ms.p95 = true", "at_most.ttft_ms.p95: must be a number"),
        ("at_most = 3", "at_most: must be a table"),
        ("", "there is no limit in it"),
    ],
)
def test_bad_files_are_refused_by_name(text: str, said: str) -> None:
    with pytest.raises(BadObjective, match=said):
        parse_objective(text)


@pytest.mark.parametrize("path", ["ttft_ms.p90", "first_word", "within_objective.p50", "ttft_ms"])
def test_unknown_figures_are_named(path: str) -> None:
    with pytest.raises(BadObjective, match=path):
        judge((Limit(path, 1, False),), FIGURES)


def test_the_default_objectives_name_figures_that_exist() -> None:
    known = figures([WorkerResult(0.0)], Scenario(calls=1))
    judge(TEXT + AUDIO, known)


def test_the_example_of_the_readme_names_figures_that_exist() -> None:
    readme = Path(objective.__file__).with_name("README.md").read_text(encoding="utf-8")
    [example] = re.findall(r"^```toml\n(.*?)^```$", readme, re.DOTALL | re.MULTILINE)
    limits = parse_objective(example)
    assert len(limits) == 4
    judge(limits, figures([WorkerResult(0.0)], Scenario(calls=1)))
    for name in re.findall(r"^\| `(\w+)`", readme, re.MULTILINE):
        assert name in figures([WorkerResult(0.0)], Scenario(calls=1))
