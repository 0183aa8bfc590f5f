"""Every replica on a Ray cluster is scraped by itself, at a port of its own.

`/metrics` behind the proxy would show now one replica and now another. Instead each replica puts a file for Prometheus'
`file_sd_configs` into a folder on its machine, and takes it away when it ends; what a killed one has left there goes when
the next one starts.
"""

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@contextmanager
def own_target(exposition: Callable[[], bytes], folder: Path, host: str) -> Iterator[None]:
    """Serve `exposition` on a free port of `host`, and tell Prometheus by a file in `folder`, while the block lasts."""

    class Scrape(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = self.path == "/metrics"
            body = exposition() if found else b""
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", _CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            """Scrapes are not logged."""

    folder.mkdir(parents=True, exist_ok=True)
    clear(folder)
    with ThreadingHTTPServer((host, 0), Scrape) as server:
        thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
        thread.start()
        file = folder / f"voicepace-{os.getpid()}.json"
        target = {"targets": [f"{host}:{server.server_port}"], "labels": {"replica": str(os.getpid())}}
        # Renamed into place: Prometheus may read at any moment.
        fresh = file.with_suffix(".new")
        fresh.write_text(json.dumps([target]))
        fresh.replace(file)
        try:
            yield
        finally:
            file.unlink(missing_ok=True)
            server.shutdown()
            thread.join()


def clear(folder: Path) -> None:
    """Take away the files of processes of this machine that are no more."""
    for file in folder.glob("voicepace-*.json"):
        try:
            os.kill(int(file.stem.rpartition("-")[2]), 0)
        except (ProcessLookupError, ValueError):
            with suppress(OSError):
                file.unlink()
        except PermissionError:
            pass
