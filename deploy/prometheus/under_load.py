"""A real service under a real load, seen by a real Prometheus: `python -m deploy.prometheus.under_load --help`.

Starts `voicepace serve` and Prometheus, then `voicepace loadtest` twice at once: text calls, and audio calls that interrupt.
"""

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from deploy.prometheus.local import Prometheus, local_prometheus
from service.loadtest.service_process import end

VOICEPACE = [sys.executable, "-c", "import sys; from service.cli import main; sys.exit(main())"]


class ServiceFailed(Exception):
    """The service did not become ready; the message is its last line."""


@contextmanager
def service(flags: Sequence[str], log: Path) -> Iterator[str]:
    """Run `voicepace serve` with these flags on a free port until the block ends; yields `host:port`.

    Raises:
        ServiceFailed: it ended instead of becoming ready.
    """
    with log.open("w") as errors:
        command = [*VOICEPACE, "serve", "--port", "0", *flags]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        try:
            assert process.stdout is not None
            found = next((m for line in process.stdout if (m := re.search(r"is ready: http://(\S+)", line))), None)
            if found is None:
                raise ServiceFailed((log.read_text().strip().splitlines() or ["it said nothing"])[-1])
            yield found[1]
        finally:
            end(process, 60)


def load(address: str, calls: int, seconds: float, *flags: str) -> "subprocess.Popen[bytes]":
    """Start `voicepace loadtest` against the service."""
    command = [*VOICEPACE, "loadtest", "--url", f"ws://{address}", "--calls", str(calls), "--ramp", "2"]
    return subprocess.Popen([*command, "--duration", str(seconds), "--quiet", *flags], stdout=subprocess.DEVNULL)


@contextmanager
def under_load(
    flags: Sequence[str], folder: Path, *, text_calls: int, audio_calls: int, seconds: float
) -> Iterator[tuple[Prometheus, str]]:
    """Everything as the module says; yields Prometheus and the service's address once the load has ended.

    Raises:
        ServiceFailed: the service did not start, or the load could not be made.
    """
    with ExitStack() as running:
        address = running.enter_context(service(flags, folder / "service.log"))
        prometheus = running.enter_context(local_prometheus(address, folder / "prometheus"))
        callers = [load(address, text_calls, seconds, "--think", "0.5", "1.5")]
        if audio_calls:
            audio = ("--audio", "pcm16", "--interrupts", "0.5", "--think", "0.5", "1.5", "--seed", "2")
            callers.append(load(address, audio_calls, seconds, *audio))
        if any(caller.wait(seconds + 120) not in (0, 1) for caller in callers):
            raise ServiceFailed("the load could not be made")
        yield prometheus, address
