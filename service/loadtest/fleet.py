"""Spreads the lines of a load over processes of its own, and shows how it goes."""

import multiprocessing
import sys
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from typing import Any, TextIO

from service.loadtest.record import WorkerResult
from service.loadtest.scenario import Scenario
from service.loadtest.worker import Live, Target, run_worker

FIELDS = ("held", "replies", "refused", "failed")

_shared: Any = None  # in a worker process: the counters of all processes


class ProgressLine:
    """One line on a terminal, rewritten each second; elsewhere a line every ten."""

    def __init__(self, scenario: Scenario, out: TextIO | None = None) -> None:
        self._scenario = scenario
        self._out = sys.stderr if out is None else out
        self._next_s = 0.0

    def show(self, elapsed_s: float, live: Live) -> None:
        whole_s = self._scenario.ramp_s + self._scenario.duration_s
        text = (
            f"{min(elapsed_s, whole_s):4.0f}/{whole_s:.0f} s  {live.held} of {self._scenario.calls} calls, "
            f"{live.replies} replies, {live.refused} refused, {live.failed} failed"
        )
        if self._out.isatty():
            self._out.write(f"\r{text}\x1b[K")
        elif elapsed_s >= self._next_s:
            self._next_s = elapsed_s + 10.0
            self._out.write(text + "\n")
        self._out.flush()

    def close(self) -> None:
        if self._out.isatty():
            self._out.write("\r\x1b[K")
            self._out.flush()


def run_load(target: Target, scenario: Scenario, processes: int, quiet: bool = False) -> list[WorkerResult]:
    """Hold all lines until the scenario is over; one result per process."""
    progress = None if quiet else ProgressLine(scenario)
    try:
        if processes == 1:
            return [run_worker(target, scenario, range(scenario.calls), progress.show if progress else None)]
        return _run_processes(target, scenario, processes, progress)
    finally:
        if progress is not None:
            progress.close()


def _run_processes(
    target: Target, scenario: Scenario, processes: int, progress: ProgressLine | None
) -> list[WorkerResult]:
    context = multiprocessing.get_context("spawn")
    counters = context.Array("q", len(FIELDS) * processes, lock=False)
    with ProcessPoolExecutor(processes, context, initializer=_share, initargs=(counters,)) as pool:
        work: list[Future[WorkerResult]] = [
            pool.submit(_run_share, target, scenario, range(number, scenario.calls, processes), number)
            for number in range(processes)
        ]
        elapsed_s = 0.0
        while wait(work, timeout=1.0).not_done:
            elapsed_s += 1.0
            if progress is not None:
                live = Live(*(sum(counters[at :: len(FIELDS)]) for at in range(len(FIELDS))))
                progress.show(elapsed_s, live)
        return [future.result() for future in work]


def _share(counters: Any) -> None:
    global _shared
    _shared = counters


def _run_share(target: Target, scenario: Scenario, lines: Sequence[int], number: int) -> WorkerResult:
    def count(elapsed_s: float, live: Live) -> None:
        at = number * len(FIELDS)
        _shared[at : at + len(FIELDS)] = [getattr(live, name) for name in FIELDS]

    return run_worker(target, scenario, lines, count)
