"""What a simulated bridge is: it opens a call, says things, breaks in, plays what it is sent, and hangs up.

Pure: frames in, facts and frames out, time as an argument (seconds, monotonic). Whoever owns the socket sends the
frames, calls `tick` about every 20 ms, and posts the caller's words where `say` cannot carry them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from service.protocols.events import AudioFormat, Frame


@dataclass(frozen=True, slots=True)
class TextArrived:
    """Some text of the reply."""

    text: str


@dataclass(frozen=True, slots=True)
class AudioArrived:
    """Some audio of the reply, in the bridge's format."""

    payload: bytes


@dataclass(frozen=True, slots=True)
class MarkArrived:
    """The service wants to know when everything before this has been played."""

    name: str


@dataclass(frozen=True, slots=True)
class Cleared:
    """The service had everything dropped that was not played yet."""


@dataclass(frozen=True, slots=True)
class ReplyEnded:
    """The service says that the reply is complete."""


@dataclass(frozen=True, slots=True)
class CallOver:
    """The service ends the call."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The platform would have refused this message of the service, and why."""

    reason: str


Fact = TextArrived | AudioArrived | MarkArrived | Cleared | ReplyEnded | CallOver | Refused


@dataclass(frozen=True, slots=True)
class Transcript:
    """A POST that carries the caller's words, for dialects that carry none."""

    path: str
    body: Mapping[str, str | bool]


class Bridge(Protocol):
    """The far side of one dialect, one instance per call."""

    dialect: str
    """Name in the catalog."""
    subprotocol: str | None
    """Offered with the upgrade."""
    audio: AudioFormat | None
    """None: text is exchanged."""

    def opening(self) -> list[Frame]:
        """What the platform sends first."""

    def say(self, text: str, now: float) -> list[Frame] | Transcript:
        """The caller has said this."""

    def interrupt(self, now: float) -> list[Frame]:
        """The caller breaks in; nothing for dialects that leave it to the service to hear."""

    def press(self, digit: str) -> list[Frame]:
        """The caller presses a key."""

    def caller_audio(self, payload: bytes, now: float) -> list[Frame]:
        """20 ms of the caller's audio; nothing for text dialects."""

    def receive(self, data: Frame, now: float) -> tuple[list[Fact], list[Frame]]:
        """One message of the service: what it means, and what the platform answers at once.

        Raises:
            ValueError: the service sent something that is not of this dialect.
        """

    def tick(self, now: float) -> list[Frame]:
        """What the platform has to say now that playing has come this far."""

    def hang_up(self) -> list[Frame]:
        """The caller hangs up; the socket is closed afterwards."""

    @property
    def heard_ms(self) -> float:
        """Audio of the current reply that has been played; 0 for text dialects."""
