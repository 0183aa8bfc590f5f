"""The service under load: one with the scripted engine in a process of its own, and what any says of itself."""

import contextlib
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from urllib.error import URLError
from urllib.parse import urlsplit, urlunsplit
from urllib.request import urlopen

SERVE = "import sys; from service.cli import main; sys.exit(main(['serve', *sys.argv[1:]]))"


class ServiceFailed(Exception):
    """The service did not come up; the message is its own last line."""


def scripted_service(settings: Mapping[str, str]) -> contextlib.AbstractContextManager[str]:
    """Run `voicepace serve` with the scripted engine on a free port; yields `ws://HOST:PORT`.

    Raises:
        ServiceFailed: it ended instead of becoming ready.
    """
    flags = {"server.port": "0", "scripted.enabled": "true", **settings}
    return running(
        [sys.executable, "-c", SERVE, *(part for key, value in flags.items() for part in (f"--{key}", value))]
    )


@contextlib.contextmanager
def running(argv: Sequence[str]) -> Iterator[str]:
    """Run a service that prints its `http://` address once it is ready; yields it as `ws://HOST:PORT`.

    Raises:
        ServiceFailed: it ended instead of becoming ready.
        OSError: there is no such program.
    """
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=errors, text=True)
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if found := re.search(r"http://(\S+)", line):
                    yield f"ws://{found[1]}"
                    return
            process.wait()
            errors.seek(0)
            raise ServiceFailed((errors.read().strip().splitlines() or ["it said nothing"])[-1])
        finally:
            end(process, 10)


def end(process: "subprocess.Popen[str]", within_s: float) -> None:
    """Ask a process to end, and make it where it has not by then."""
    process.terminate()
    try:
        process.wait(within_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def reachable(url: str) -> str | None:
    """Why nobody answers at a WebSocket address; None if somebody does."""
    parts = urlsplit(url)
    try:
        port = parts.port or (443 if parts.scheme == "wss" else 80)
        socket.create_connection((parts.hostname or "", port), timeout=5).close()
    except OSError as error:
        return error.strerror or str(error)
    except ValueError as error:
        return str(error)
    return None


def service_cpu_s(url: str) -> float | None:
    """CPU seconds the service at a WebSocket address has used, from its metrics; None where it does not say."""
    parts = urlsplit(url)
    scheme = {"ws": "http", "wss": "https"}.get(parts.scheme, parts.scheme)
    try:
        with urlopen(urlunsplit((scheme, parts.netloc, "/metrics", "", "")), timeout=5) as response:
            exposition = response.read().decode("utf-8", "replace")
    except (URLError, OSError, ValueError):
        return None
    found = re.search(r"^process_cpu_seconds_total ([0-9.e+]+)", exposition, re.MULTILINE)
    return float(found[1]) if found else None
