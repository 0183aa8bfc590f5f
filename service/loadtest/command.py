"""`voicepace loadtest`: many simulated callers against a running service, and whether it kept its objective."""

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO
from urllib.parse import urlsplit, urlunsplit

from service.loadtest.objective import AUDIO, TEXT, BadObjective, Limit, parse_objective
from service.loadtest.scenario import Scenario
from service.protocols.catalog import CATALOG

if TYPE_CHECKING:
    from service.loadtest.worker import Target

MET, MISSED, FAILED = 0, 1, 2


class CannotRun(Exception):
    """The load cannot be made; one clear line."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `voicepace loadtest`."""
    what = parser.add_argument_group("what is called")
    what.add_argument("--url", default="ws://127.0.0.1:8080", help="the service (default: %(default)s)")
    what.add_argument("--dialect", choices=sorted(CATALOG), default="native", help="the protocol of the bridges")
    what.add_argument(
        "--audio", choices=["none", "pcm16", "mulaw", "alaw"], default="none", help="native calls with audio"
    )
    what.add_argument("--rate", type=int, default=8000, metavar="HZ", help="sample rate (default: %(default)s)")
    what.add_argument("--uplink", action="store_true", help="callers send (silent) audio too")
    what.add_argument("--key-env", metavar="NAME", help="environment variable that holds the key")
    what.add_argument("--engine", choices=["scripted"], help="start a service with this engine and call that one")
    what.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of that service")
    who = parser.add_argument_group("who calls")
    defaults = Scenario(calls=10)
    who.add_argument("--calls", type=int, default=defaults.calls, help="held at a time (default: %(default)s)")
    who.add_argument("--ramp", type=float, default=defaults.ramp_s, metavar="S", help="first arrivals over S seconds")
    who.add_argument("--duration", type=float, default=defaults.duration_s, metavar="S", help="measured time after it")
    who.add_argument("--turns", type=int, default=defaults.turns, metavar="N", help="utterances of a call")
    who.add_argument(
        "--think", type=float, nargs=2, default=defaults.think_s, metavar="S", help="shortest, longest pause"
    )
    who.add_argument("--interrupts", type=float, default=defaults.interrupt_share, metavar="SHARE", help="of replies")
    who.add_argument("--hang-ups", type=float, default=defaults.hang_up_share, metavar="SHARE", help="of calls")
    who.add_argument("--hypotheses", type=int, default=defaults.hypotheses, metavar="N", help="partials per utterance")
    who.add_argument("--texts", type=Path, metavar="FILE", help="what callers say, one utterance a line")
    who.add_argument("--seed", type=int, default=defaults.seed, help="of everything drawn (default: %(default)s)")
    who.add_argument("--patience", type=float, default=30.0, metavar="S", help="longest silence of the service")
    who.add_argument("--processes", type=int, default=1, metavar="N", help="of the callers (default: %(default)s)")
    out = parser.add_argument_group("what comes of it")
    out.add_argument("--slo", type=Path, metavar="FILE", help="objective (TOML); the exit code is 1 if it is missed")
    out.add_argument("--find-max", type=int, metavar="N", help="find the most calls, up to N, that meet the objective")
    out.add_argument("--json", type=Path, metavar="FILE", help="write the figures (- for standard output)")
    out.add_argument("--html", type=Path, metavar="FILE", help="write a report with plots")
    out.add_argument("--quiet", action="store_true", help="show no progress")


def run(args: argparse.Namespace) -> int:
    """Make the load; 0 if the objective was met, 1 if not, 2 if the load could not be made."""
    from service.loadtest.service_process import ServiceFailed

    try:
        limits = _limits(args)
        scenario = _scenario(args)
        with _service(args) as url:
            return _run(args, url, scenario, limits)
    except (CannotRun, BadObjective, ServiceFailed) as error:
        print(f"voicepace loadtest: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return 130


def _limits(args: argparse.Namespace) -> tuple[Limit, ...]:
    if args.slo is None:
        return AUDIO if _has_audio(args) else TEXT
    try:
        return parse_objective(args.slo.read_text(encoding="utf-8"))
    except OSError as error:
        raise CannotRun(f"{args.slo}: {error.strerror}") from None
    except BadObjective as error:
        raise BadObjective(f"{args.slo}: {error}") from None


def _has_audio(args: argparse.Namespace) -> bool:
    from service.bridges.catalog import BRIDGES

    return BRIDGES[args.dialect]().audio is not None if args.dialect in BRIDGES else args.audio != "none"


def _scenario(args: argparse.Namespace) -> Scenario:
    for name in ("calls", "turns", "processes"):
        if getattr(args, name) < 1:
            raise CannotRun(f"--{name} must be at least 1")
    if args.duration <= 0 or args.ramp < 0 or not 0 <= args.think[0] <= args.think[1]:
        raise CannotRun("--duration, --ramp and --think must be times, the shorter pause first")
    scenario = Scenario(
        args.calls,
        args.ramp,
        args.duration,
        args.turns,
        tuple(args.think),
        args.interrupts,
        args.hang_ups,
        args.hypotheses,
        args.seed,
    )
    if args.texts is None:
        return scenario
    try:
        texts = [line.strip() for line in args.texts.read_text(encoding="utf-8").splitlines() if line.strip()]
    except OSError as error:
        raise CannotRun(f"{args.texts}: {error.strerror}") from None
    if not texts:
        raise CannotRun(f"{args.texts}: holds no text")
    return replace(scenario, questions=tuple(texts))


@contextlib.contextmanager
def _service(args: argparse.Namespace) -> Iterator[str]:
    """The address to call: a service of our own, or the one given."""
    from service.loadtest.service_process import scripted_service

    if args.engine is None:
        if args.set:
            raise CannotRun("--set is for the service that --engine starts")
        yield args.url
        return
    most = max(args.calls, args.find_max or 0)
    settings = {"server.max_calls": str(most + max(10, most // 4)), "voice.names": '["tone"]'}
    for assignment in args.set:
        key, found, value = assignment.partition("=")
        if not found:
            raise CannotRun(f"--set {assignment}: write KEY=VALUE")
        settings[key] = value
    with scripted_service(settings) as url:
        yield url


def _run(args: argparse.Namespace, url: str, scenario: Scenario, limits: tuple[Limit, ...]) -> int:
    from service.loadtest.outcome import Load, find_most
    from service.loadtest.summary import summary_lines

    load = Load(_target(args, url), args.processes, limits, args.quiet)
    say = _say_to(sys.stderr if str(args.json) == "-" else sys.stdout)
    outcome = load.run(scenario) if args.find_max is None else find_most(load, scenario, args.find_max, say)
    say("\n".join(summary_lines(outcome)))
    _write(args, outcome)
    return MET if outcome["met"] else MISSED


def _say_to(out: TextIO) -> Callable[[str], None]:
    return lambda text: print(text, file=out, flush=True)


def _target(args: argparse.Namespace, url: str) -> "Target":
    from service.loadtest.service_process import reachable
    from service.loadtest.worker import Target

    parts = urlsplit(url)
    if parts.scheme not in ("ws", "wss") or not parts.netloc:
        raise CannotRun(f"{url} is not a WebSocket address (ws://HOST:PORT)")
    if (why := reachable(url)) is not None:
        raise CannotRun(f"cannot reach {url}: {why}")
    path = parts.path if parts.path not in ("", "/") else CATALOG[args.dialect].path
    encoding = None if args.audio == "none" else args.audio
    whole = urlunsplit(parts._replace(path=path))
    return Target(whole, args.dialect, encoding, args.rate, _key(args.key_env), args.patience, args.uplink)


def _key(name: str | None) -> str | None:
    if name is None:
        return None
    if not (key := os.environ.get(name)):
        raise CannotRun(f"the environment variable {name} is not set")
    return key


def _write(args: argparse.Namespace, outcome: dict[str, Any]) -> None:
    from service.loadtest.html_report import html_report

    try:
        if args.json is not None:
            text = json.dumps(outcome, indent=1, ensure_ascii=False) + "\n"
            if str(args.json) == "-":
                sys.stdout.write(text)
            else:
                args.json.write_text(text, encoding="utf-8")
        if args.html is not None:
            args.html.write_text(html_report(outcome), encoding="utf-8")
    except OSError as error:
        raise CannotRun(f"{error.filename}: {error.strerror}") from None
