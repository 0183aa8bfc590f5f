"""Loading, serving, the death and return of the engine, draining: the one place that decides whether we are ready."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from enum import Enum

from engine.api import Engine, EngineError, EngineStartError
from service.metrics import Metrics
from tts_adapter.voice import Voice, VoiceError

logger = logging.getLogger("voicepace.lifecycle")

CHECK_EVERY_S = 0.5
RESTART_PAUSES_S = (0.0, 1.0, 5.0, 15.0, 30.0)


class State(Enum):
    """What the service can do now."""

    STARTING = "starting"
    READY = "ready"
    RESTARTING = "restarting"
    DRAINING = "draining"
    FAILED = "failed"


class Lifecycle:
    """Starts engine and voice, watches the engine, brings it back.

    Args:
        engine: started, watched, stopped.
        voice: started, stopped; None for text only.
        metrics: `voicepace_engine_up` follows the state.
        announce: called once, when the service is ready for its first call.
    """

    def __init__(self, engine: Engine, voice: Voice | None, metrics: Metrics, announce: Callable[[], None]) -> None:
        self.prepare: Callable[[], Awaitable[None]] | None = None  # what else must be done once the engine runs
        self._engine = engine
        self._voice = voice
        self._metrics = metrics
        self._announce = announce
        self.state = State.STARTING
        self.failure: str | None = None

    @property
    def ready(self) -> bool:
        """True while a call would be served."""
        return self.state is State.READY and not self._engine.dead

    async def run(self) -> None:
        """Until cancelled, or until the first start has failed (then `failure` says why)."""
        try:
            await self._start()
        except (EngineError, VoiceError) as error:
            self.failure = str(error)
            self.state = State.FAILED
            return
        self._ready()
        self._announce()
        await self._watch()

    async def stop(self) -> None:
        """Free engine and voice. Safe to repeat."""
        self._metrics.engine_up.set(0)
        await self._engine.stop()
        if self._voice is not None:
            await self._voice.stop()

    def drain(self) -> None:
        """No longer ready: running calls may finish."""
        self.state = State.DRAINING

    async def _start(self) -> None:
        await self._engine.start()
        if self._voice is not None:
            await self._voice.start()
        if self.prepare is not None:
            await self.prepare()

    def _ready(self) -> None:
        if self.state is not State.DRAINING:
            self.state = State.READY
        self._metrics.engine_up.set(1)
        # Known once the engine has read its heads; engines without heads need not say so.
        self._metrics.heads_in_use(getattr(self._engine, "heads_acceptance_length", None))
        if (fallback := getattr(self._engine, "fallback", None)) is None:
            self._metrics.speculation_in_use("", None, "")
        else:
            self._metrics.speculation_in_use("medusa_tree", fallback.instead, fallback.reason)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(CHECK_EVERY_S)
            if self._engine.dead:
                await self._restart()

    async def _restart(self) -> None:
        self._metrics.engine_up.set(0)
        if self.state is State.READY:
            self.state = State.RESTARTING
        attempt = 0
        while True:
            pause_s = RESTART_PAUSES_S[min(attempt, len(RESTART_PAUSES_S) - 1)]
            logger.error("the engine has died; starting it again in %.0f s", pause_s)
            await asyncio.sleep(pause_s)
            try:
                await self._engine.start()
            except EngineStartError as error:
                logger.error("the engine did not start: %s", error)
                attempt += 1
                continue
            self._ready()
            logger.warning("the engine is back")
            return
