"""The native dialect of `/v1/voice`: JSON text frames with a `type`, audio in binary frames.

Every message is documented, with an example that a test executes, in README.md beside this file. Pure: it turns frames
into events and commands into frames, and never raises for what the peer sent.
"""

import json
import math
from json.encoder import encode_basestring
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import from_json

from service.protocols.events import (
    AudioFormat,
    BadMessage,
    BeginAudio,
    CallEnded,
    CallerAudio,
    CallStarted,
    ClearAudio,
    Command,
    EndTurn,
    Event,
    Fault,
    Frame,
    HangUp,
    Ignored,
    Interrupted,
    Played,
    Ready,
    SendAudio,
    SendMark,
    SendToken,
    ToolCall,
    ToolResult,
    UserText,
)

FRAME_MS = 20
MAX_MESSAGE_CHARS = 65_536
MAX_AUDIO_BYTES = 48_000  # one second of the widest format
MAX_NAME_CHARS = 64  # of a field named back to the peer: it may be the peer's own text

Milliseconds = Annotated[float, Field(ge=0, le=86_400_000, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0, le=2**53)]
Identifier = Annotated[str, Field(pattern=r"^[A-Za-z0-9._:~-]{1,128}$")]


def _whole_number(value: object) -> object:
    """Numbers may arrive as text or as a float; anything else is left for the next validator to refuse."""
    try:
        if isinstance(value, str | float) and float(value).is_integer():
            return int(float(value))
    except (ValueError, OverflowError):
        pass
    return value


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class AudioBody(_Body):
    encoding: Literal["pcm16", "mulaw", "alaw"] = "pcm16"
    sample_rate_hz: Annotated[Literal[8000, 16000, 22050, 24000], BeforeValidator(_whole_number)] = 8000


class FunctionBody(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    description: str | None = None
    parameters: dict[str, Any] | None = None


class ToolBody(_Body):
    type: Literal["function"]
    function: FunctionBody


class StartBody(_Body):
    type: Literal["start"]
    call_id: Identifier | None = None
    audio: AudioBody | None = None
    system_prompt: Annotated[str, Field(max_length=32_000)] | None = None
    tools: Annotated[tuple[ToolBody, ...], Field(max_length=128)] = ()
    greeting: Annotated[str, Field(max_length=4_000)] | None = None
    parameters: Annotated[
        dict[
            Annotated[str, Field(max_length=64)],
            Annotated[str, Field(max_length=1_000, coerce_numbers_to_str=True)],
        ],
        Field(max_length=64),
    ] = Field(default_factory=dict)


class UserTextBody(_Body):
    type: Literal["user_text"]
    text: Annotated[str, Field(max_length=8_000)]
    final: bool = True
    language: Annotated[str, Field(max_length=35)] | None = None


class InterruptBody(_Body):
    type: Literal["interrupt"]
    heard_ms: Milliseconds | None = None
    heard_text: Annotated[str, Field(max_length=32_000)] | None = None


class PlayedBody(_Body):
    type: Literal["played"]
    turn_id: Count
    audio_ms: Milliseconds | None = None
    token_index: Count | None = None


class ToolResultBody(_Body):
    type: Literal["tool_result"]
    tool_call_id: Annotated[str, Field(min_length=1, max_length=128)]
    content: Annotated[str, Field(max_length=48_000)]


class EndBody(_Body):
    type: Literal["end"]
    reason: Annotated[str, Field(max_length=64)] = "hangup"


InBody = Annotated[
    StartBody | UserTextBody | InterruptBody | PlayedBody | ToolResultBody | EndBody, Field(discriminator="type")
]
IN_TYPES = frozenset({"start", "user_text", "interrupt", "played", "tool_result", "end"})
OUT_TYPES = frozenset({"ready", "token", "audio_begin", "audio_clear", "turn_end", "tool_call", "error", "end"})
_IN_BODY: TypeAdapter[InBody] = TypeAdapter(InBody)


class NativeDialect:
    """One call in the native protocol."""

    name: str = "native"
    surface: str = "voice"
    subprotocol: str | None = None
    reports_position: bool = True
    captions: bool = True

    def __init__(self) -> None:
        self.wants_audio = False
        self._started = False
        self._audio: AudioFormat | None = None
        self._announced_turn: int | None = None
        self._refused_audio = False

    def receive(self, data: Frame, now: float) -> list[Event]:
        if isinstance(data, bytes):
            return [self._receive_audio(data)]
        body = _parse(data)
        if isinstance(body, BadMessage | Ignored):
            return [body]
        if self._started == isinstance(body, StartBody):
            reason = "start may be sent once only" if self._started else "the first message must be start"
            return [BadMessage("type", reason, body.type)]
        if isinstance(body, StartBody):
            if body.audio and body.audio.encoding != "pcm16" and body.audio.sample_rate_hz != 8000:
                return [BadMessage("audio.sample_rate_hz", f"{body.audio.encoding} is 8000 Hz only", body.type)]
            self._started = True
            self._audio = AudioFormat(body.audio.encoding, body.audio.sample_rate_hz) if body.audio else None
            self.wants_audio = self._audio is not None
        return [_event(body, self._audio)]

    def _receive_audio(self, data: bytes) -> Event:
        if self._audio is None:
            # One answer for a stream of frames: the peer sends fifty a second.
            if self._refused_audio:
                return Ignored()
            self._refused_audio = True
            return BadMessage("audio", "this call has no audio" if self._started else "the first message must be start")
        if not data or len(data) > MAX_AUDIO_BYTES:
            return BadMessage("audio", f"a frame holds 1 to {MAX_AUDIO_BYTES} bytes")
        if self._audio.encoding == "pcm16" and len(data) % 2:
            return BadMessage("audio", "pcm16 needs an even number of bytes")
        return CallerAudio(data)

    def send(self, command: Command, now: float) -> list[Frame]:
        if isinstance(command, SendToken):
            return [_token_frame(command)]
        if isinstance(command, SendAudio):
            return self._audio_frames(command)
        if isinstance(command, BeginAudio):
            return self._announce(command.turn_id)
        if isinstance(command, SendMark) or (isinstance(command, ClearAudio) and self._audio is None):
            return []
        return [_dump(_out_body(command, self._audio))]

    def _audio_frames(self, command: SendAudio) -> list[Frame]:
        if self._audio is None:
            return []
        return [*self._announce(command.turn_id), command.payload]

    def _announce(self, turn_id: int) -> list[Frame]:
        """Binary frames carry no turn, so each turn's are preceded by exactly one `audio_begin`."""
        if self._audio is None or turn_id == self._announced_turn:
            return []
        self._announced_turn = turn_id
        return [_dump({"type": "audio_begin", "turn_id": turn_id, **_audio_body(self._audio)})]


def _parse(data: str) -> InBody | BadMessage | Ignored:
    """The body of one text frame, or what is wrong with it."""
    if len(data) > MAX_MESSAGE_CHARS:
        return BadMessage("message", f"longer than {MAX_MESSAGE_CHARS} characters")
    try:
        message = from_json(data.encode("utf-8", "replace"), allow_inf_nan=False)
    except ValueError:
        return BadMessage("message", "not valid JSON")
    if not isinstance(message, dict):
        return BadMessage("message", "must be a JSON object")
    kind = message.get("type")
    if not isinstance(kind, str):
        return BadMessage("type", "is missing" if kind is None else "must be a string")
    if kind not in IN_TYPES:
        return Ignored()
    try:
        return _IN_BODY.validate_python(message)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        path = ".".join(str(part) for part in first["loc"][1:])[:MAX_NAME_CHARS]  # the first part is the type
        return BadMessage(path or "message", first["msg"], kind)


def _event(body: InBody, audio: AudioFormat | None) -> Event:
    match body:
        case StartBody():
            tools = tuple(tool.model_dump(exclude_none=True) for tool in body.tools)
            return CallStarted(body.call_id, audio, body.parameters, body.system_prompt, tools, body.greeting)
        case UserTextBody():
            return UserText(body.text, body.final, body.language)
        case InterruptBody():
            return Interrupted(body.heard_text, body.heard_ms)
        case PlayedBody():
            if body.audio_ms is None and body.token_index is None:
                return BadMessage("audio_ms", "one of audio_ms and token_index is needed", body.type)
            return Played(body.turn_id, body.audio_ms, body.token_index)
        case ToolResultBody():
            return ToolResult(body.tool_call_id, body.content)
        case EndBody():
            return CallEnded(body.reason)


def _token_frame(command: SendToken) -> str:
    """Written out by hand: it is the one message sent for every token of every call."""
    made = "" if command.burst_ms is None else f',"burst_ms":{command.burst_ms:.1f}'
    return (
        f'{{"type":"token","turn_id":{command.turn_id},"index":{command.index},'
        f'"text":{encode_basestring(_sendable(command.text))},"burst":{command.burst}{made}}}'
    )


def _out_body(command: Command, audio: AudioFormat | None) -> dict[str, Any]:
    match command:
        case Ready(call_id):
            return {"type": "ready", "call_id": call_id, "audio": _audio_body(audio) if audio else None}
        case ClearAudio(turn_id):
            return {"type": "audio_clear", "turn_id": turn_id}
        case EndTurn(turn_id, reason, heard, timings_ms):
            timings = {name: round(value, 3) for name, value in timings_ms.items() if math.isfinite(value)}
            said = {} if heard is None else {"heard": heard}
            return {"type": "turn_end", "turn_id": turn_id, "reason": reason, **said, "timings_ms": timings}
        case ToolCall(turn_id, tool_call_id, name, arguments):
            ids = {"turn_id": turn_id, "tool_call_id": tool_call_id}
            return {"type": "tool_call", **ids, "name": name, "arguments": arguments}
        case Fault(code, message, field):
            where = {} if field is None else {"field": field}
            return {"type": "error", "code": code, "message": message, **where}
        case HangUp(reason):
            return {"type": "end", "reason": reason}
    raise TypeError(f"not a message of its own: {type(command).__name__}")


def _audio_body(audio: AudioFormat) -> dict[str, Any]:
    return {"encoding": audio.encoding, "sample_rate_hz": audio.sample_rate_hz, "frame_ms": FRAME_MS}


def _dump(body: dict[str, Any]) -> str:
    return _sendable(json.dumps(body, ensure_ascii=False, separators=(",", ":")))


def _sendable(text: str) -> str:
    """Half a surrogate pair cannot be sent as UTF-8; it becomes a question mark."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
