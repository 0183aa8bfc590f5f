"""A real Prometheus on this machine, with the repository's rules, that scrapes one service: for checks and pictures.

Needs the `prometheus` binary (Debian's package of that name).
"""

import json
import math
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import yaml

RULES = Path(__file__).with_name("rules")
Labels = dict[str, str]


class PrometheusFailed(Exception):
    """Prometheus did not start; the message is its own last line."""


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A running server."""

    url: str

    def query(self, expression: str) -> list[tuple[Labels, float]]:
        """The newest value of each series; those without a number are left out."""
        series = self._get("query", query=expression)["result"]
        found = [(one["metric"], float(one["value"][1])) for one in series]
        return [(labels, value) for labels, value in found if not math.isnan(value)]

    def query_range(self, expression: str, start: float, end: float, step_s: float) -> list[tuple[Labels, Any]]:
        """Each series as a list of (time, value)."""
        data = self._get("query_range", query=expression, start=start, end=end, step=step_s)
        return [(one["metric"], [(at, float(value)) for at, value in one["values"]]) for one in data["result"]]

    def rule_errors(self) -> list[str]:
        """What went wrong in the evaluation of rules."""
        groups = self._get("rules")["groups"]
        return [rule["lastError"] for group in groups for rule in group["rules"] if rule.get("lastError")]

    def _get(self, what: str, **parameters: object) -> Any:
        with urlopen(f"{self.url}/api/v1/{what}?{urlencode(parameters)}", timeout=30) as answer:
            return json.load(answer)["data"]


@contextmanager
def local_prometheus(target: str, folder: Path, every_s: int = 2) -> Iterator[Prometheus]:
    """Scrape `target` (host:port) as job `voicepace` and evaluate all rules every `every_s` seconds.

    Raises:
        PrometheusFailed: it ended instead of answering.
    """
    port = _free_port()
    config = _configuration(target, folder, every_s)
    flags = [
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    log = folder / "prometheus.log"
    with log.open("w") as output:
        process = subprocess.Popen(["prometheus", *flags], stdout=output, stderr=subprocess.STDOUT)
        try:
            _wait_until_ready(process, port, log)
            yield Prometheus(f"http://127.0.0.1:{port}")
        finally:
            process.terminate()
            process.wait(30)


def _configuration(target: str, folder: Path, every_s: int) -> Path:
    rules = folder / "rules"
    rules.mkdir(parents=True)
    for path in RULES.glob("*.yml"):
        # Only how often long windows are computed is changed: a check does not wait minutes.
        (rules / path.name).write_text(re.sub(r"interval: \w+", f"interval: {every_s}s", path.read_text()))
    config = {
        "global": {"scrape_interval": f"{every_s}s", "evaluation_interval": f"{every_s}s"},
        "rule_files": [f"{rules}/*.yml"],
        "scrape_configs": [{"job_name": "voicepace", "static_configs": [{"targets": [target]}]}],
    }
    path = folder / "prometheus.yml"
    path.write_text(yaml.safe_dump(config))
    return path


def _wait_until_ready(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    for _ in range(300):
        if process.poll() is not None:
            break
        try:
            urlopen(f"http://127.0.0.1:{port}/-/ready", timeout=5).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise PrometheusFailed((log.read_text().strip().splitlines() or ["it said nothing"])[-1])


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
