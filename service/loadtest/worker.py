"""Holds some of the lines of a load in one process, and watches what it costs itself."""

import asyncio
import contextlib
import resource
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.request import urlopen

from service.bridge_caller import transcript_request
from service.bridges.bridge import Transcript
from service.bridges.catalog import BRIDGES
from service.event_loop import PreciseLoop
from service.interpreter import settle_interpreter
from service.loadtest.bridge_line import BridgeLine
from service.loadtest.caller import SimulatedCall
from service.loadtest.line import Line, NativeLine
from service.loadtest.record import CallRecord, WorkerResult
from service.loadtest.scenario import CallScript, Scenario, line_scripts
from service.protocols.events import Encoding

LAG_PROBE_S = 0.05
GRACE_S = 2.0  # after the end, for replies under way
RETRY_S = 1.0


@dataclass(frozen=True, slots=True)
class Target:
    """Whom to call and how."""

    url: str
    dialect: str = "native"
    encoding: Encoding | None = None
    sample_rate_hz: int = 8000
    key: str | None = None
    patience_s: float = 30.0
    uplink: bool = False

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"} if self.key else {}


@dataclass(slots=True)
class Live:
    """What is going on now, for the progress line."""

    held: int = 0
    replies: int = 0
    refused: int = 0
    failed: int = 0


Progress = Callable[[float, Live], None]


def new_line(target: Target, call_id: str) -> Line:
    """The bridge's end of one call in the target's dialect."""
    if target.dialect == "native":
        return NativeLine(target.encoding, target.sample_rate_hz)
    return BridgeLine(BRIDGES[target.dialect](call_id=call_id))


def run_worker(target: Target, scenario: Scenario, lines: Sequence[int], progress: Progress | None) -> WorkerResult:
    """Hold the lines until the scenario is over."""
    settle_interpreter()
    with asyncio.Runner(loop_factory=PreciseLoop) as runner:
        return runner.run(_Worker(target, scenario, progress).run(lines))


class _Worker:
    def __init__(self, target: Target, scenario: Scenario, progress: Progress | None) -> None:
        self._target = target
        self._scenario = scenario
        self._progress = progress
        self._live = Live()

    async def run(self, lines: Sequence[int]) -> WorkerResult:
        self._now = asyncio.get_running_loop().time
        self._result = WorkerResult(begun_s=self._now())
        self._stop_s = self._result.begun_s + self._scenario.ramp_s + self._scenario.duration_s
        used_s = _cpu_s()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(self._stop_s + GRACE_S), asyncio.TaskGroup() as tasks:
                watch = tasks.create_task(self._watch(), name="watch")
                held = [tasks.create_task(self._line(line), name=f"line-{line}") for line in lines]
                await asyncio.wait(held)
                watch.cancel()
        self._result.ended_s = self._now()
        self._result.cpu_s = _cpu_s() - used_s
        return self._result

    async def _line(self, line: int) -> None:
        """One call after the other, each due a pause after the one before."""
        free_s = self._result.begun_s
        for script in line_scripts(self._scenario, line):
            due_s = free_s + script.pause_s
            if due_s >= self._stop_s:
                return
            await asyncio.sleep(due_s - self._now())
            record = await self._call(line, script, due_s)
            # A refused caller does not hammer on the door.
            free_s = self._now() + (RETRY_S if record.outcome in ("refused", "failed") else 0.0)

    async def _call(self, number: int, script: CallScript, due_s: float) -> CallRecord:
        record = CallRecord(due_s)
        self._result.records.append(record)
        target = self._target
        line = new_line(target, f"load-{self._scenario.seed}-{number}-{len(self._result.records)}")
        call = SimulatedCall(line, record, self._post, target.patience_s, self._stop_s, target.uplink)
        self._live.held += 1
        try:
            await call.hold(target.url, target.headers, script)
        finally:
            self._live.held -= 1
            self._live.replies += len(record.turns)
            self._live.refused += record.outcome == "refused"
            self._live.failed += record.outcome in ("failed", "lost")
        return record

    async def _post(self, said: Transcript) -> None:
        """Bring the caller's words to the service beside the socket, as a bridge's recogniser does."""
        request = transcript_request(self._target.url, self._target.key, said)
        with contextlib.suppress(OSError):  # the call then gets no answer, and says so
            await asyncio.to_thread(lambda: urlopen(request, timeout=self._target.patience_s).close())

    async def _watch(self) -> None:
        """Measure how late this process itself is: a busy client makes a good service look bad."""
        shown_s = self._now()
        while True:
            due_s = self._now() + LAG_PROBE_S
            await asyncio.sleep(LAG_PROBE_S)
            now = self._now()
            self._result.loop_lag_s.append(now - due_s)
            if self._progress is not None and now - shown_s >= 1.0:
                shown_s = now
                self._progress(now - self._result.begun_s, self._live)


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
