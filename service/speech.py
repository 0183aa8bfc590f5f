"""The spoken side of a reply: text → filter → segments → voice → playout → 20 ms frames on the wire.

Text is fed unpaced, as bursts come: holding it back before a voice that needs a whole clause would only delay the first
sound. Frames leave on playout's schedule. A voice that fails ends the sound, not the turn.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from service.alarm import Alarm
from service.metrics import StreamMetrics
from service.playback_ledger import mark_name
from service.protocols.events import AudioFormat, Command, Fault, SendAudio, SendMark
from service.reply import Reply
from service.task_group import TaskGroup
from tts_adapter.audio import Resampler, encode
from tts_adapter.gain import VoiceLevel
from tts_adapter.normaliser import Normaliser, Spoken
from tts_adapter.options import SpeechOptions
from tts_adapter.playout import Frame, Playout
from tts_adapter.segmenter import Segment, Segmenter
from tts_adapter.text_filter import TextFilter
from tts_adapter.voice import Samples, Utterance, Voice, VoiceError

Send = Callable[[Command], Awaitable[bool]]
FRAME_MS = 20
MARK_EVERY_FRAMES = 10
_NOTHING: Samples = np.zeros(0, np.int16)
_ASSUMED_SAMPLES = 4000
_LEVELS: WeakKeyDictionary[Voice, VoiceLevel] = WeakKeyDictionary()
"""How loud each voice is, from all of its replies, so that a reply's gain does not hang on its first syllable."""


@dataclass(frozen=True, slots=True)
class SentFrame:
    """A frame that has left: the characters of the reply it speaks, and its length."""

    start_char: int
    end_char: int
    audio_ms: float
    mark: str | None


class Speech:
    """Speaks one reply.

    Args:
        reply: whose times are filled in, and whose text the frames are mapped back to.
        voice: speaks.
        audio: the call's format.
        options: filter, segments, playout.
        normaliser: writes out numbers and the like for a voice that reads them badly; None for one that does so itself.
        send: the call's way out.
        metrics: of the call's surface.
        sent: told of every frame whose send has returned, with the time.
    """

    def __init__(
        self,
        reply: Reply,
        voice: Voice,
        audio: AudioFormat,
        options: SpeechOptions,
        normaliser: Normaliser | None,
        send: Send,
        metrics: StreamMetrics,
        sent: Callable[[SentFrame, float], None],
    ) -> None:
        self._reply = reply
        self._audio = audio
        self._send = send
        self._metrics = metrics
        self._sent = sent
        self._loop = asyncio.get_running_loop()
        self._utterance: Utterance = voice.open(reply.turn_id)
        self._normaliser = normaliser
        self._filter = TextFilter(options.code_blocks) if options.filter_text else None
        self._segmenter = Segmenter(options.segments)
        level = _LEVELS.setdefault(voice, VoiceLevel(_ASSUMED_SAMPLES))
        self._playout = Playout(audio.sample_rate_hz, options.playout, FRAME_MS, level)
        self._resampler = Resampler(voice.sample_rate_hz, audio.sample_rate_hz)
        self._ready: list[Segment] = []
        self._pushed: list[tuple[Segment, Spoken | None]] = []
        self._text_alarm = Alarm()
        self._audio_alarm = Alarm()
        self._room_alarm = Alarm()
        self._finished = False
        self._frames = 0
        self._char = 0

    def push(self, text: str) -> None:
        """More of the reply, as the model said it."""
        self._take(self._filter.push(text) if self._filter else text)

    def finish(self) -> None:
        """The reply is complete."""
        if self._filter:
            self._take(self._filter.finish())
        self._ready += self._segmenter.finish(self._loop.time())
        self._finished = True
        self._text_alarm.ring()

    async def run(self) -> None:
        """Until the last frame has left.

        Raises:
            CallLost: from `send`.
        """
        try:
            async with TaskGroup() as tasks:
                speaking = tasks.create_task(self._speak(), name="speak")
                tasks.create_task(self._play(), name="play")
            if not speaking.result():
                await self._send(Fault("voice_failed", "the voice failed; the reply goes on as text"))
        finally:
            self._playout.interrupt(self._loop.time())
            for seconds in self._playout.underruns_s:
                self._metrics.underrun(seconds)
            await self._utterance.close()

    async def _speak(self) -> bool:
        """Everything from text to buffered audio; False where the voice failed on the way."""
        whole = True
        try:
            async with TaskGroup() as tasks:
                tasks.create_task(self._push_segments(), name="segments")
                await self._listen()
        except* VoiceError:
            whole = False
        self._playout.finish(self._loop.time())
        self._audio_alarm.ring()
        return whole

    def _take(self, filtered: str) -> None:
        if filtered:
            self._ready += self._segmenter.push(filtered, self._loop.time())
            self._text_alarm.ring()

    async def _push_segments(self) -> None:
        while True:
            self._ready += self._segmenter.due(self._loop.time())
            while self._ready:
                await self._push_segment(self._ready.pop(0))
            if self._finished:
                await self._utterance.flush()
                return
            await self._text_alarm.wait_until(self._segmenter.next_wakeup())

    async def _push_segment(self, segment: Segment) -> None:
        if self._reply.first_segment_at is None:
            self._reply.first_segment_at = self._loop.time()
        spoken = self._normaliser.spoken(segment.text) if self._normaliser else None
        self._pushed.append((segment, spoken))
        await self._utterance.push(segment.text if spoken is None else spoken.text)

    def _raw(self, position: int) -> int:
        return self._filter.raw_position(position) if self._filter else position

    async def _listen(self) -> None:
        segment = 0
        async for chunk in self._utterance:
            if self._reply.first_chunk_at is None:
                self._reply.first_chunk_at = self._loop.time()
            segment = chunk.segment
            self._buffer(self._resampler.process(chunk.samples, chunk.last), segment, chunk.last)
            while not self._playout.has_room:
                await self._room_alarm.wait_until(None)
        self._buffer(self._resampler.process(_NOTHING, last=True), segment, True)

    def _buffer(self, samples: Samples, segment: int, last: bool) -> None:
        now = self._loop.time()
        self._playout.push(samples, segment, last, now)
        self._audio_alarm.ring()
        seconds = len(samples) / self._audio.sample_rate_hz
        self._segmenter.heard(segment, seconds, last, self._playout.buffered_s, now)
        self._text_alarm.ring()

    async def _play(self) -> None:
        while True:
            for frame in self._playout.frames_due(self._loop.time()):
                await self._send_frame(frame)
            self._room_alarm.ring()
            if self._playout.done:
                return
            await self._audio_alarm.wait_until(self._playout.next_wakeup())

    async def _send_frame(self, frame: Frame) -> None:
        await self._send(SendAudio(self._reply.turn_id, encode(frame.samples, self._audio.encoding)))
        if self._reply.first_frame_at is None:
            self._reply.first_frame_at = self._loop.time()
        if frame.silent:
            return
        start, self._char = self._char, max(self._char, self._spoken_char(frame))
        self._frames += 1
        mark = None
        if self._frames % MARK_EVERY_FRAMES == 0 or self._playout.done:
            mark = mark_name(self._reply.turn_id, self._frames)
            if not await self._send(SendMark(self._reply.turn_id, mark)):
                mark = None
        self._sent(SentFrame(start, self._char, FRAME_MS, mark), self._loop.time())

    def _spoken_char(self, frame: Frame) -> int:
        """The character of the reply that is reached when `frame` has been played."""
        position = self._playout.position_at(frame.position)
        if not 0 <= position.segment < len(self._pushed):
            return 0
        segment, spoken = self._pushed[position.segment]
        if spoken is None:
            return self._raw(segment.start + int(position.fraction * len(segment.text)))
        return self._raw(segment.start + spoken.written_position(int(position.fraction * len(spoken.text))))
