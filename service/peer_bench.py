"""`voicepace bench peer`: this service and a peer do the same audio job, in turns, on the same machine.

Both answer simulated Twilio media streams with the same words at the same times and the same tone for a voice, each in a
process of its own. The rounds are interleaved, so that what else the machine does falls on both alike.
"""

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from statistics import median
from typing import Any

from service.loadtest.objective import AUDIO
from service.loadtest.outcome import Load
from service.loadtest.scenario import Scenario
from service.loadtest.service_process import ServiceFailed, running, scripted_service
from service.loadtest.worker import Target
from service.protocols.catalog import CATALOG

DIALECT = "twilio-media"
Contestants = Mapping[str, Callable[[], AbstractContextManager[str]]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The peer, and how much."""
    parser.add_argument(
        "--server", type=Path, default=Path("deploy/peer/pipecat_server.py"), help="(default: %(default)s)"
    )
    parser.add_argument("--python", type=Path, default=Path(sys.executable), help="interpreter with the peer in it")
    parser.add_argument(
        "--calls", type=int, nargs="+", default=[10, 20, 40, 60], help="at a time (default: %(default)s)"
    )
    parser.add_argument("--rounds", type=int, default=3, help="of each (default: %(default)s)")
    parser.add_argument("--duration", type=float, default=20.0, metavar="S", help="measured (default: %(default)s)")
    parser.add_argument("--ramp", type=float, default=5.0, metavar="S", help="first arrivals (default: %(default)s)")
    parser.add_argument("--uplink", action="store_true", help="callers send (silent) audio too")
    parser.add_argument("--seed", type=int, default=1, help="of the callers (default: %(default)s)")


def run(arguments: argparse.Namespace) -> int:
    """A line a run, a table, and one JSON document as the last line; the exit code."""
    most = 2 * max(arguments.calls)
    settings = {"server.max_calls": str(most), "voice.names": '["tone"]'}
    name = arguments.server.stem.removesuffix("_server")
    contestants: Contestants = {
        "voicepace": lambda: scripted_service(settings),
        name: lambda: running([str(arguments.python.expanduser()), str(arguments.server)]),
    }
    runs: list[dict[str, Any]] = []
    try:
        for number in range(arguments.rounds):
            for calls in arguments.calls:
                for who in contestants if number % 2 == 0 else reversed(list(contestants)):
                    scenario = Scenario(calls, arguments.ramp, arguments.duration, seed=arguments.seed + number)
                    runs.append(measure(who, contestants[who], scenario, arguments.uplink))
                    print(line(runs[-1]), file=sys.stderr, flush=True)
    except (OSError, ServiceFailed) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(table(runs))
    print(json.dumps({"kind": "peer", "runs": runs}))
    return 0


def measure(
    who: str, start: Callable[[], AbstractContextManager[str]], scenario: Scenario, uplink: bool
) -> dict[str, Any]:
    """One load on a fresh process.

    Raises:
        ServiceFailed: it did not start.
    """
    with start() as url:
        target = Target(url + CATALOG[DIALECT].path, DIALECT, uplink=uplink)
        return {"who": who, **facts(Load(target, 1, AUDIO, quiet=True).run(scenario))}


def facts(outcome: Mapping[str, Any]) -> dict[str, Any]:
    """What is compared, of one run."""
    found = outcome["figures"]
    held, cpu = found["calls"]["held_mean"], found["service"]["cpu_share"]
    return {
        "calls": outcome["scenario"]["calls"],
        "held": held,
        "failed": found["calls"]["failed"] + found["calls"]["lost"] + found["calls"]["refused"],
        "replies": found["replies"],
        "frames_per_s": found["frames_per_s"],
        "lateness_p99_ms": found["frame_lateness_ms"]["p99"],
        "lateness_max_ms": found["frame_lateness_ms"]["max"],
        "underruns": found["underruns"],
        "first_audio_p50_ms": found["first_audio_ms"]["p50"],
        "first_audio_p95_ms": found["first_audio_ms"]["p95"],
        "barge_in_p95_ms": found["barge_in_ms"]["p95"],
        "cpu_ms_per_call_s": None if cpu is None or not held else round(1000 * cpu / held, 2),
        "client_lag_p99_ms": found["client"]["loop_lag_ms"]["p99"],
        "met": outcome["met"],
    }


COLUMNS = {
    "held": "held",
    "failed": "failed",
    "lateness_p99_ms": "late p99",
    "lateness_max_ms": "late max",
    "underruns": "underruns",
    "first_audio_p50_ms": "audio p50",
    "first_audio_p95_ms": "audio p95",
    "barge_in_p95_ms": "barge-in",
    "cpu_ms_per_call_s": "CPU/call",
    "client_lag_p99_ms": "client lag",
}


def line(run: Mapping[str, Any]) -> str:
    """One run."""
    shown = ", ".join(f"{title} {_number(run[key])}" for key, title in COLUMNS.items())
    return f"{run['who']} {run['calls']} calls: {shown}"


def table(runs: Sequence[Mapping[str, Any]]) -> str:
    """The median over the rounds, by load; times in ms, CPU in ms per second of call."""
    lines = [f"{'calls':>6} {'':10}" + "".join(f"{title:>12}" for title in COLUMNS.values())]
    for calls in sorted({run["calls"] for run in runs}):
        for who in sorted({run["who"] for run in runs}, reverse=True):
            own = [run for run in runs if run["calls"] == calls and run["who"] == who]
            cells = "".join(f"{_number(_median([run[key] for run in own])):>12}" for key in COLUMNS)
            lines.append(f"{calls:6d} {who:10}{cells}")
    return "\n".join(lines)


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
