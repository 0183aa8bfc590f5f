"""What simulated callers saw. Pure data; times are monotonic seconds of this machine, the same in all its processes."""

from dataclasses import dataclass, field

from service.call_report import TurnTimes


@dataclass(slots=True)
class CallRecord:
    """What came of one call.

    `outcome`: done, hung_up (by the script), refused (by the service, with the HTTP `status`), lost, failed (nothing
    came for too long, or a reply ended in an error), or unfinished when the test was over.
    """

    due_s: float
    outcome: str = "unfinished"
    status: int = 0
    ready_s: float | None = None
    ended_s: float | None = None
    faults: list[str] = field(default_factory=list)
    turns: list[TurnTimes] = field(default_factory=list)


@dataclass(slots=True)
class WorkerResult:
    """What the lines of one process saw."""

    begun_s: float
    ended_s: float = 0.0
    cpu_s: float = 0.0
    records: list[CallRecord] = field(default_factory=list)
    loop_lag_s: list[float] = field(default_factory=list)
