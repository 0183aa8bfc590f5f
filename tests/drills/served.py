"""`voicepace serve` in a process of its own, as an operator starts it, and what it says of itself."""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

from service.loadtest.service_process import end

VOICEPACE = Path(sys.executable).parent / "voicepace"
# What a service holds for its calls, and must hold no more of once they have ended.
LEFTOVERS = ("voicepace_tasks", "process_open_fds", "voicepace_calls", "voicepace_engine_requests")
SCRIPTED = {"scripted.enabled": "true", "voice.names": "[]"}


@dataclass(frozen=True)
class Served:
    """A running service."""

    process: "subprocess.Popen[str]"
    http: str
    log: Path
    last_words: list[str] = field(default_factory=list)

    @property
    def voice_url(self) -> str:
        """Of the native protocol."""
        return f"{self.http.replace('http', 'ws')}/v1/voice"

    @property
    def said(self) -> str:
        """What it has written to standard error, to its end once it has ended."""
        return self.last_words[0] if self.last_words else self.log.read_text()

    def metric(self, name: str) -> float:
        """Sum over the labels of one metric."""
        with urlopen(f"{self.http}/metrics", timeout=60) as answer:
            families = text_string_to_metric_families(answer.read().decode())
        return sum(sample.value for family in families for sample in family.samples if sample.name == name)

    def leftovers(self) -> dict[str, float]:
        """What it holds now."""
        return {name: self.metric(name) for name in LEFTOVERS}

    def ready(self) -> int:
        """The status of /readyz."""
        try:
            with urlopen(f"{self.http}/readyz", timeout=60) as answer:
                return int(answer.status)
        except HTTPError as error:
            return error.code

    def until(self, condition: "object", limit_s: float) -> None:
        """Wait until the callable `condition` is true.

        Raises:
            TimeoutError: it is not, within `limit_s`.
        """
        assert callable(condition)
        end = time.monotonic() + limit_s
        while not condition():
            if time.monotonic() > end:
                raise TimeoutError(f"not within {limit_s:g} s; the service said:\n{self.said}")
            time.sleep(0.05)

    def children(self) -> dict[int, str]:
        """Process ids of everything it has started, with the command line of each."""
        found, waiting = {}, [self.process.pid]
        while waiting:
            for task in Path(f"/proc/{waiting.pop()}/task").iterdir():
                children = [int(pid) for pid in (task / "children").read_text().split()]
                waiting += children
                found |= {pid: Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ") for pid in children}
        return found


def start(log: Path, settings: dict[str, str]) -> "subprocess.Popen[str]":
    """Start it on a free port."""
    flags = [part for key, value in {"server.port": "0", **settings}.items() for part in (f"--{key}", value)]
    with log.open("w") as errors:
        return subprocess.Popen([VOICEPACE, "serve", *flags], stdout=subprocess.PIPE, stderr=errors, text=True)


@contextlib.contextmanager
def served(settings: dict[str, str]) -> Iterator[Served]:
    """A service that is ready for calls; it is told to stop at the end."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        process = start(log, settings)
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            assert line.startswith("voicepace is ready: http://127.0.0.1:"), log.read_text()
            service = Served(process, line.split()[-1], log)
            yield service
        finally:
            end(process, 60)
            process.stdout.close()
        service.last_words.append(log.read_text())


def refused_start(settings: dict[str, str], folder: Path) -> str:
    """What a service that must not start says: its last line on standard error."""
    log = folder / "log"
    process = start(log, settings)
    try:
        assert process.wait(300) == 1
    finally:
        process.kill()
        process.communicate()
    return log.read_text().splitlines()[-1]


def exists(pid: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
