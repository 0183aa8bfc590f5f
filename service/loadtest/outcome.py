"""Makes a load and holds it against the objective; finds the most calls that meet it."""

import os
import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from service.loadtest.figures import figures
from service.loadtest.fleet import run_load
from service.loadtest.objective import Limit, Verdict, judge
from service.loadtest.record import WorkerResult
from service.loadtest.scenario import Scenario
from service.loadtest.search import Search
from service.loadtest.series import distributions, timeline
from service.loadtest.service_process import service_cpu_s
from service.loadtest.worker import Target, new_line


@dataclass(frozen=True, slots=True)
class Load:
    """What stays the same from one run to the next."""

    target: Target
    processes: int
    limits: tuple[Limit, ...]
    quiet: bool = False

    def run(self, scenario: Scenario) -> dict[str, Any]:
        """Everything that is known of one run, as its JSON holds it.

        Raises:
            BadObjective: a limit names no figure; found out before anything runs.
        """
        judge(self.limits, _figures([WorkerResult(0.0)], scenario, None))
        used_s = service_cpu_s(self.target.url)
        results = run_load(self.target, scenario, min(self.processes, scenario.calls), self.quiet)
        used_after_s = service_cpu_s(self.target.url)
        cpu_s = None if used_s is None or used_after_s is None else used_after_s - used_s
        found = _figures(results, scenario, cpu_s)
        verdicts = judge(self.limits, found)
        line = new_line(self.target, "shown")
        return {
            "dialect": self.target.dialect,
            "audio": line.has_audio,
            "scenario": asdict(scenario),
            "machine": {"cpus": os.cpu_count(), "system": platform.platform(), "python": platform.python_version()},
            "figures": found,
            "objective": [_verdict(verdict) for verdict in verdicts],
            "met": all(verdict.met for verdict in verdicts),
            "timeline": timeline(results),
            "distributions": distributions(results, scenario),
        }


def find_most(load: Load, scenario: Scenario, limit: int, say: Callable[[str], None]) -> dict[str, Any]:
    """The outcome of the largest load that met the objective, or of the smallest where none did."""
    search = Search(start=min(scenario.calls, limit), limit=limit)
    tried: list[dict[str, Any]] = []
    outcomes: list[dict[str, Any]] = []
    while (calls := search.proposal) is not None:
        outcome = load.run(replace(scenario, calls=calls, seed=scenario.seed + len(tried)))
        missed = [verdict["limit"] for verdict in outcome["objective"] if not verdict["met"]]
        say(f"{calls:5d} calls: " + (f"missed {', '.join(missed)}" if missed else "met"))
        search.record(calls, outcome["met"])
        outcomes.append(outcome)
        tried.append({"calls": calls, "met": outcome["met"], "objective": outcome["objective"]})
    say(f"\nThe most calls that meet the objective: {search.best}\n")
    shown = max(outcomes, key=lambda outcome: (outcome["met"], _size(outcome) if outcome["met"] else -_size(outcome)))
    return {**shown, "most_calls": search.best, "tried": tried}


def _size(outcome: dict[str, Any]) -> int:
    calls: int = outcome["scenario"]["calls"]
    return calls


def _figures(results: list[WorkerResult], scenario: Scenario, service_cpu_s: float | None) -> dict[str, Any]:
    wall_s = max(result.ended_s for result in results) - min(result.begun_s for result in results)
    share = None if service_cpu_s is None or wall_s <= 0 else round(service_cpu_s / wall_s, 3)
    return {**figures(results, scenario), "service": {"cpu_share": share}}


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {"limit": verdict.limit.text, "value": verdict.value, "met": verdict.met}
