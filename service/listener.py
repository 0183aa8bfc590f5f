"""Listens to one caller for speech: audio in, facts out, the network in a worker thread.

Audio waits in a backlog of `MAX_BACKLOG_S`; when detection cannot keep up, the oldest is dropped. One chunk at a time is
in a thread, so a call takes at most one, and nothing here runs on the event loop but bookkeeping. A bridge that stops
sending in the middle of a sound (silence suppression, a stalled network) is taken to be silent after `SILENT_AFTER_S`:
a reply that was held for a suspicion is never held for longer.
"""

import asyncio
from collections.abc import Awaitable, Callable

from service.alarm import Alarm
from service.audio_backlog import AudioBacklog
from service.barge_in import BargeInFact
from service.protocols.events import AudioFormat
from service.speech_detector import SpeechDetector

MAX_BACKLOG_S = 2.0
SILENT_AFTER_S = 0.2
_SILENCE = {"pcm16": b"\x00", "mulaw": b"\xff", "alaw": b"\xd5"}


class Listener:
    """One caller's ear.

    Args:
        detector: of this call; used by one thread at a time.
        audio: the format of the caller's audio.
        act: told of every fact, in order, on the event loop.
    """

    def __init__(
        self, detector: SpeechDetector, audio: AudioFormat, act: Callable[[BargeInFact], Awaitable[None]]
    ) -> None:
        self._detector = detector
        self._silence = _SILENCE[audio.encoding] * int(audio.frame_bytes * 50 * SILENT_AFTER_S)
        self._act = act
        self._loop = asyncio.get_running_loop()
        self._backlog = AudioBacklog(audio, MAX_BACKLOG_S)
        self._alarm = Alarm()
        self._heard_at = self._loop.time()
        self._words = False

    def hear(self, payload: bytes) -> None:
        """Audio of the caller has just come."""
        self._backlog.push(payload)
        self._heard_at = self._loop.time()
        self._alarm.ring()

    def words(self) -> None:
        """The recogniser has brought words."""
        self._words = True
        self._alarm.ring()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._alarm.wait_until(self._next_wakeup())
            for fact in await self._facts():
                await self._act(fact)

    def _next_wakeup(self) -> float | None:
        times = [self._detector.barge_in.next_wakeup()]
        if self._detector.barge_in.undecided:
            times.append(self._heard_at + SILENT_AFTER_S)
        return min((at for at in times if at is not None), default=None)

    async def _facts(self) -> list[BargeInFact]:
        barge_in, now = self._detector.barge_in, self._loop.time()
        if self._words:
            self._words = False
            barge_in.words()
        payload = b"".join(self._backlog.take())
        if not payload and barge_in.undecided and now >= self._heard_at + SILENT_AFTER_S:
            payload, self._heard_at = self._silence, now
        if payload:
            return await asyncio.to_thread(self._detector.feed, payload, self._heard_at)
        return barge_in.due(now)
