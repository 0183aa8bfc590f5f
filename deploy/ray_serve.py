"""Several replicas of the service on a Ray cluster: `serve run deploy.ray_serve:application replicas=2 max_replicas=8`.

Every replica is one process with an engine of its own, and runs the same application as `voicepace serve`. Ray Serve's proxy
gives a WebSocket to one replica and keeps it there until it closes, so a call finds its history in that replica's prefix
cache. Replicas are added and taken away by the number of calls each holds; one that is taken away gets no new calls and as
long as `server.drain_s` for those it has.

Arguments (`key=value`) are `replicas`, `max_replicas`, `calls_per_replica` (aimed at; default: two thirds of
`server.max_calls`), `cpus` and `gpus` of each, `targets` (a folder, see `deploy.ray_metrics`), and every setting by its
dotted key. A model over several GPUs of one machine: `gpus=4 engine.tensor_parallel_size=4`. Over several machines:
`gpus=0 engine.tensor_parallel_size=8 engine.distributed_executor_backend=ray`; the engine then asks the cluster for its
GPUs itself.

Needs the packages of `lock/ray.txt` beside the service's own.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import ray
from fastapi import FastAPI
from ray import serve

from deploy.ray_metrics import own_target
from service.settings import Settings, SettingsError, load_settings

DEFAULT_TARGETS = "~/.cache/voicepace/ray-targets"


class ReplicaFailed(RuntimeError):
    """The service did not start; the message is its own line."""


def application(arguments: Mapping[str, str]) -> serve.Application:
    """What `serve run` and a Serve config file start.

    Raises:
        SettingsError: an argument or setting is unknown or malformed.
    """
    flags = dict(arguments)
    replicas = _number(flags, "replicas", 1)
    most = _number(flags, "max_replicas", replicas)
    cpus, gpus = _number(flags, "cpus", 1), _number(flags, "gpus", 0)
    aimed_at = _number(flags, "calls_per_replica", 0)
    targets = Path(flags.pop("targets", DEFAULT_TARGETS)).expanduser()
    settings = load_settings(flags)
    limit = settings.server.max_calls
    calls = aimed_at or max(1, 2 * limit // 3)

    @serve.deployment(
        name="voicepace",
        autoscaling_config={"min_replicas": replicas, "max_replicas": most, "target_ongoing_requests": calls},
        # The service itself decides who may wait or is refused: the proxy holds nobody back.
        max_ongoing_requests=limit + settings.server.max_waiting_calls + 16,
        graceful_shutdown_timeout_s=settings.server.drain_s,
        health_check_timeout_s=30,
        ray_actor_options={"num_cpus": cpus, "num_gpus": gpus},
    )
    @serve.ingress(builder(flags, targets))
    class Replica:
        """One replica."""

    return Replica.bind()


def builder(flags: Mapping[str, str], targets: Path) -> Callable[[], FastAPI]:
    """A function that makes the application in a replica's own process, from settings read there."""
    read = dict(flags)

    def build() -> FastAPI:
        return ready_first(load_settings(read), targets)

    return build


def ready_first(settings: Settings, targets: Path) -> FastAPI:
    """The service as an application whose start ends when calls can be taken: a replica gets none before."""
    from service import logs
    from service.app import create_app
    from service.metrics import Metrics
    from service.server import make_engine
    from tts_adapter.voices.catalog import make_voice

    logs.set_up(settings.log.level, settings.engine.vllm_log_level)
    engine = make_engine(settings)
    settled = asyncio.Event()
    metrics = Metrics(engine.model_name, settings.pacing.slo_ms / 1000)
    service = create_app(settings, engine, make_voice(settings.voice), metrics, settled.set, settled.set)
    router = service.app.router
    # Behind the proxy it would be a different replica's each time.
    router.routes[:] = [route for route in router.routes if getattr(route, "path", "") != "/metrics"]
    run = router.lifespan_context

    @asynccontextmanager
    async def until_ready(app: FastAPI) -> AsyncIterator[Any]:
        host = ray.util.get_node_ip_address()
        async with run(app) as state:
            await settled.wait()
            if service.lifecycle.failure is not None:
                raise ReplicaFailed(service.lifecycle.failure)
            with own_target(metrics.exposition, targets, host):
                yield state

    router.lifespan_context = until_ready
    return service.app


def _number(flags: dict[str, str], key: str, default: int) -> int:
    """Take a whole number out of the arguments."""
    given = flags.pop(key, str(default))
    try:
        number = int(given)
    except ValueError:
        raise SettingsError(f"{key}: must be a whole number, not {given!r}") from None
    if number < 0:
        raise SettingsError(f"{key}: must not be negative")
    return number
