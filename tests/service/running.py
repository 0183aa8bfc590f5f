"""A service on a real socket, in a thread of its own, for as long as a `with` block lasts."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from engine.api import Engine
from service.app import Service, create_app
from service.event_loop import PreciseLoop
from service.metrics import Metrics
from service.server import listen, web_server
from service.settings import Settings
from tts_adapter.voice import Voice


@dataclass
class Running:
    """A running service as a test sees it."""

    port: int
    metrics: Metrics
    engine: Engine
    service: Service | None = None
    loop: asyncio.AbstractEventLoop | None = None
    ready: threading.Event = field(default_factory=threading.Event)

    @property
    def ws(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    @property
    def http(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def value(self, name: str, **labels: str) -> float | None:
        """One sample of the service's own registry."""
        return self.metrics.registry.get_sample_value(name, labels)


@contextlib.contextmanager
def running_service(
    settings: Settings, engine: Engine, voice: Voice | None = None, *, ready_within_s: float = 120
) -> Iterator[Running]:
    """Serve on a free port; at the end the server stops in order and the thread is joined."""
    listener = listen("127.0.0.1", 0)
    metrics = Metrics(engine.model_name if settings.scripted.enabled else settings.engine.names[0])
    running = Running(listener.getsockname()[1], metrics, engine)
    started = threading.Event()

    async def serve() -> None:
        service = create_app(settings, engine, voice, metrics, running.ready.set, running.ready.set)
        server = web_server(service.app, settings)
        running.service, running.loop = service, asyncio.get_running_loop()
        running.stop = lambda: setattr(server, "should_exit", True)  # type: ignore[attr-defined]
        started.set()
        await server.serve([listener])

    def main() -> None:
        with asyncio.Runner(loop_factory=PreciseLoop) as runner:
            runner.run(serve())

    thread = threading.Thread(target=main, name="service")
    thread.start()
    try:
        assert started.wait(120)
        assert running.ready.wait(ready_within_s)
        yield running
    finally:
        running.stop()  # type: ignore[attr-defined]
        thread.join(30)
        listener.close()
    assert not thread.is_alive()
