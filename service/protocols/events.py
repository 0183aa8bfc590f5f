"""The words between a dialect and a session: events are facts that the bridge reported, commands are what we tell it.

Frozen, pure, no wire format. A dialect turns frames into events (`receive`) and commands into frames (`send`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

Frame = str | bytes
Encoding = Literal["pcm16", "mulaw", "alaw"]


@dataclass(frozen=True, slots=True)
class AudioFormat:
    """Mono audio on the wire. PCM16 is little-endian."""

    encoding: Encoding
    sample_rate_hz: int

    @property
    def frame_bytes(self) -> int:
        """Bytes of one 20 ms frame."""
        return self.sample_rate_hz // 50 * (2 if self.encoding == "pcm16" else 1)


# Events


@dataclass(frozen=True, slots=True)
class CallStarted:
    """The bridge has a caller. `audio` None: the bridge takes text."""

    call_id: str | None = None
    audio: AudioFormat | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    system_prompt: str | None = None
    tools: tuple[Mapping[str, Any], ...] = ()
    greeting: str | None = None


@dataclass(frozen=True, slots=True)
class UserText:
    """What the caller said. Not `final`: the recogniser may still change it."""

    text: str
    final: bool = True
    language: str | None = None


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The caller broke in. The bridge may say how much was heard: as text, or as time since the reply began to play."""

    heard_text: str | None = None
    heard_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Played:
    """The far end has played the turn up to here: audio time, or index of the last token heard (from 0)."""

    turn_id: int
    audio_ms: float | None = None
    token_index: int | None = None


@dataclass(frozen=True, slots=True)
class MarkReached:
    """A mark came back: `played` True where the audio before it was heard, False where it was cleared unheard."""

    name: str
    played: bool


@dataclass(frozen=True, slots=True)
class CallerAudio:
    """Audio from the caller, in the call's format; `timestamp_ms` where the bridge gives one."""

    payload: bytes
    timestamp_ms: float | None = None


@dataclass(frozen=True, slots=True)
class DigitPressed:
    """One DTMF digit: 0-9, *, #, A-D."""

    digit: str


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The answer to a `ToolCall`."""

    tool_call_id: str
    content: str


@dataclass(frozen=True, slots=True)
class FlowPaused:
    """The bridge's buffer is full: send no more until `FlowResumed`."""


@dataclass(frozen=True, slots=True)
class FlowResumed:
    """The bridge takes more again."""


@dataclass(frozen=True, slots=True)
class CallEnded:
    """The bridge says the call is over."""

    reason: str = "hangup"


@dataclass(frozen=True, slots=True)
class BadMessage:
    """A known message with a bad body: answered with `Fault`, and the call goes on. Never holds what was said."""

    field: str
    reason: str
    message_type: str = ""


@dataclass(frozen=True, slots=True)
class Ignored:
    """A message type this dialect does not know: counted, otherwise nothing."""


@dataclass(frozen=True, slots=True)
class Reply:
    """Frames the protocol itself owes at once (an acknowledgement, the next queued piece)."""

    frames: tuple[Frame, ...]


Event = (
    CallStarted
    | UserText
    | Interrupted
    | Played
    | MarkReached
    | CallerAudio
    | DigitPressed
    | ToolResult
    | FlowPaused
    | FlowResumed
    | CallEnded
    | BadMessage
    | Ignored
    | Reply
)


# Commands


@dataclass(frozen=True, slots=True)
class Ready:
    """The call is accepted."""

    call_id: str


@dataclass(frozen=True, slots=True)
class SendToken:
    """One token of a reply, `index` from 0 within the turn; `burst` is the engine step it came in, from 0.

    `burst_ms` is when the engine made that step, since the reply was asked for; None: not told.
    """

    turn_id: int
    index: int
    text: str
    burst: int = 0
    burst_ms: float | None = None


@dataclass(frozen=True, slots=True)
class BeginAudio:
    """Audio of a reply starts with the next `SendAudio`."""

    turn_id: int


@dataclass(frozen=True, slots=True)
class SendAudio:
    """One 20 ms frame in the call's format."""

    turn_id: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class SendMark:
    """Ask to be told when everything sent so far has been played."""

    turn_id: int
    name: str


@dataclass(frozen=True, slots=True)
class ClearAudio:
    """Drop whatever of the turn the bridge has not played yet."""

    turn_id: int


@dataclass(frozen=True, slots=True)
class EndTurn:
    """The reply is complete (`stop`, `length`) or was cut short (`interrupted`, `error`).

    `heard` is what entered the history, where that is known by now (after an interrupt).
    """

    turn_id: int
    reason: Literal["stop", "length", "interrupted", "error", "tool_calls"]
    heard: str | None = None
    timings_ms: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The model asks for a tool; `arguments` is JSON text."""

    turn_id: int
    tool_call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Fault:
    """Something was wrong; `field` names it."""

    code: str
    message: str
    field: str | None = None


@dataclass(frozen=True, slots=True)
class HangUp:
    """End the call from our side."""

    reason: str = "done"


Command = Ready | SendToken | BeginAudio | SendAudio | SendMark | ClearAudio | EndTurn | ToolCall | Fault | HangUp


class Dialect(Protocol):
    """One wire protocol, one instance per call. Pure: no I/O, no clock."""

    name: str
    """As in the `dialect` label and in settings."""
    surface: str
    """voice, relay, media, jambonz or asterisk: the `surface` label."""
    subprotocol: str | None
    """WebSocket subprotocol the server must select, if any."""
    wants_audio: bool
    """True: replies leave as audio frames. False: as tokens. May be settled by `CallStarted`."""
    reports_position: bool
    """True: the bridge says what was heard. False: it must be estimated. May be settled by `CallStarted`."""
    captions: bool
    """True: tokens leave beside the audio of a reply, so that they can be shown."""

    def receive(self, data: Frame, now: float) -> list[Event]:
        """Events of one incoming WebSocket message. Never raises for what the peer sent."""

    def send(self, command: Command, now: float) -> list[Frame]:
        """Frames for one command; empty where the dialect cannot say it."""
