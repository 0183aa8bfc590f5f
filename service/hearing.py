"""What is done with a caller's audio: speech in it interrupts a reply, and it is forwarded to a recogniser.

Speech is listened for where the bridge does not say itself that the caller broke in. The bridge is trusted to send the
caller alone: none of these platforms mixes our own audio into the inbound track. What comes back all the same, from a
loudspeaker beside the caller's microphone, sounds like speech; `listen.threshold` and `listen.min_speech_ms` are there
to be raised for callers whose phones cancel no echo.
"""

import asyncio
from collections.abc import Awaitable
from typing import Protocol

from service.barge_in import BargeInFact, FalseAlarm, NothingSaid, SpeechStarted, SpeechSuspected
from service.channel import Channel
from service.equipment import Equipment
from service.listener import Listener
from service.protocols.events import AudioFormat, Event, Interrupted
from service.recogniser import Recogniser
from service.speech_detector import SpeechDetector

# The bridges of these surfaces have no message that says that the caller broke in.
SURFACES_TO_LISTEN_ON = frozenset({"media", "asterisk"})


class Call(Protocol):
    """Whose caller is heard."""

    def take(self, events: list[Event]) -> Awaitable[None]:
        """Handle events."""

    def go_on(self) -> Awaitable[None]:
        """Take up the reply that was interrupted for nothing."""


class Hearing:
    """The ears of one call. Without a model and a recogniser it does nothing.

    Args:
        call: told what was heard.
        channel: held while speech is suspected.
        equipment: of the service.
        surface: of the dialect.
        call_id: of the call.
        audio: format of the caller's audio.
    """

    def __init__(
        self, call: Call, channel: Channel, equipment: Equipment, surface: str, call_id: str, audio: AudioFormat
    ) -> None:
        self._call = call
        self._channel = channel
        self._tasks: list[asyncio.Task[None]] = []
        self._listener: Listener | None = None
        self._recogniser: Recogniser | None = None
        options = equipment.settings.listen
        if equipment.speech_model is not None and surface in SURFACES_TO_LISTEN_ON:
            self._listener = Listener(SpeechDetector(equipment.speech_model, audio, options), audio, self._act)
        if options.recogniser_url is not None:
            key = options.recogniser_key.get_secret_value() if options.recogniser_key else None
            self._recogniser = Recogniser(options.recogniser_url, key, call_id, audio, call.take)

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Listen, as tasks of the call."""
        for ear in (self._listener, self._recogniser):
            if ear is not None:
                self._tasks.append(tasks.create_task(ear.run(), name=type(ear).__name__.lower()))

    async def stop(self) -> None:
        """Listen no more."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def hear(self, payload: bytes) -> None:
        """Audio of the caller has just come."""
        for ear in (self._listener, self._recogniser):
            if ear is not None:
                ear.hear(payload)

    def words(self) -> None:
        """The recogniser has brought words."""
        if self._listener is not None:
            self._listener.words()

    async def _act(self, fact: BargeInFact) -> None:
        match fact:
            case SpeechSuspected():
                self._channel.pause("caller")
            case FalseAlarm():
                self._channel.resume("caller")
            case SpeechStarted():
                await self._call.take([Interrupted()])
                self._channel.resume("caller")
            case NothingSaid():
                await self._call.go_on()
