"""Voices that are services on a WebSocket: connections kept ready, one per reply; the words are a `Dialect`'s.

The task that iterates reads its connection, the task that pushes writes to it, so no task is owned here. A connection is
opened ahead (at start, and when a reply is closed), because opening one takes longer than speaking.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from weakref import WeakSet

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI
from websockets.protocol import State

from tts_adapter.voice import AudioChunk, VoiceError
from tts_adapter.voices.dialect import Answered, ChunkMarker, Dialect, Failed, Finished, SegmentEnded, Sounded, Wire
from tts_adapter.voices.interruption import Interrupted, Interruption

_FRAMES_WAITING = 1024
_MAX_FRAME_BYTES = 1 << 22
_CLOSE_LIMIT_S = 1.0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the service is and how long to wait for it.

    Attributes:
        url: with everything in the query that is settled once.
        headers: of the handshake; keys travel here.
        connect_s: longest wait for a connection.
        stall_s: longest wait for a message once all text was sent.
        keep_alive_s: pause in the text after which the service is told to wait on.
        spares: connections that may wait for a reply.
    """

    url: str
    headers: dict[str, str] = field(repr=False)
    connect_s: float = 5.0
    stall_s: float = 8.0
    keep_alive_s: float = 10.0
    spares: int = 4


class SocketVoice:
    """A speech service.

    Args:
        name: as in the settings.
        endpoint: where it is.
        sample_rate_hz: of its audio.
        accepts_tokens: which way it is fed.
        dialect: makes the words of one reply.
    """

    def __init__(
        self,
        name: str,
        endpoint: Endpoint,
        *,
        sample_rate_hz: int,
        accepts_tokens: bool,
        dialect: Callable[[], Dialect],
    ) -> None:
        self.name = name
        self.sample_rate_hz = sample_rate_hz
        self.accepts_tokens = accepts_tokens
        self.endpoint = endpoint
        self._dialect = dialect
        self._idle: list[ClientConnection] = []
        self._utterances: WeakSet[SocketUtterance] = WeakSet()
        self._stopped = True

    async def start(self) -> None:
        """Open the first connection.

        Raises:
            VoiceError: the service cannot be reached or refuses.
        """
        self._stopped = False
        await self.give_back(await self.take())

    def open(self, turn_id: int) -> "SocketUtterance":
        """As in `tts_adapter.voice.Voice`."""
        utterance = SocketUtterance(self, turn_id, self._dialect())
        self._utterances.add(utterance)
        return utterance

    async def stop(self) -> None:
        """As in `tts_adapter.voice.Voice`."""
        self._stopped = True
        for utterance in set(self._utterances):
            await utterance.abandon()
        while self._idle:
            await self._idle.pop().close()

    async def take(self) -> ClientConnection:
        """An open connection, kept ready or new.

        Raises:
            VoiceError: there is none to be had.
        """
        while self._idle:
            connection = self._idle.pop()
            if connection.state is State.OPEN:
                return connection
        return await self._connect()

    async def give_back(self, connection: ClientConnection) -> None:
        """A connection that the next reply may use."""
        if self._stopped or connection.state is not State.OPEN or len(self._idle) >= self.endpoint.spares:
            await connection.close()
        else:
            self._idle.append(connection)

    async def prepare(self) -> None:
        """See that a connection is ready. A failure shows at the next reply."""
        if not (self._idle or self._stopped):
            try:
                await self.give_back(await self._connect())
            except VoiceError:
                pass

    async def _connect(self) -> ClientConnection:
        if self._stopped:
            raise VoiceError(f"{self.name}: not started")
        try:
            return await connect(
                self.endpoint.url,
                additional_headers=self.endpoint.headers,
                open_timeout=self.endpoint.connect_s,
                close_timeout=_CLOSE_LIMIT_S,
                # A player that has enough stops reading, which must not look like a dead line.
                ping_interval=None,
                max_queue=_FRAMES_WAITING,
                max_size=_MAX_FRAME_BYTES,
            )
        except InvalidURI:
            raise VoiceError(f"{self.name}: the url is not a WebSocket address") from None
        except (OSError, TimeoutError, InvalidHandshake, EOFError) as error:
            raise VoiceError(f"{self.name}: cannot connect ({_kind(error)})") from None


class SocketUtterance:
    """One reply by `voice`."""

    def __init__(self, voice: SocketVoice, turn_id: int, dialect: Dialect) -> None:
        self._voice = voice
        self._dialect = dialect
        self._marker = ChunkMarker(turn_id, voice.sample_rate_hz)
        self._interruption = Interruption()
        self._connection: ClientConnection | None = None
        self._begun = asyncio.Event()
        self._pushed = 0
        self._flushed = False
        self._finished = False
        self._error: VoiceError | None = None

    async def push(self, text: str) -> None:
        """As in `tts_adapter.voice.Utterance`."""
        if self._flushed:
            raise ValueError("push after flush")
        segment, self._pushed = self._pushed, self._pushed + 1
        if not self._interruption.is_set:
            await self._send(self._dialect.push(segment, text))
        if self._error is not None:
            raise self._error

    async def flush(self) -> None:
        """As in `tts_adapter.voice.Utterance`."""
        if self._flushed:
            return
        self._flushed = True
        if not self._interruption.is_set:
            await self._send(self._dialect.flush())
        if self._dialect.spoken:
            self._finished = True
            self._interruption.nudge()
        self._begun.set()

    async def cancel(self) -> None:
        """As in `tts_adapter.voice.Utterance`."""
        if self._interruption.is_set:
            return
        self._interruption.set()
        if self._connection is not None and not self._finished and self._error is None:
            try:
                async with asyncio.timeout(_CLOSE_LIMIT_S):
                    for frame in self._dialect.cancel():
                        await self._connection.send(frame)
            except (ConnectionClosed, TimeoutError):
                pass

    async def close(self) -> None:
        """As in `tts_adapter.voice.Utterance`."""
        await self.cancel()
        connection, self._connection = self._connection, None
        if connection is not None:
            reuse = self._dialect.reuse
            if self._error is None and (reuse == "always" or (reuse == "finished" and self._finished)):
                await self._voice.give_back(connection)
            else:
                await connection.close()
        await self._voice.prepare()

    async def abandon(self) -> None:
        """Cancel, and close the connection."""
        await self.cancel()
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def __aiter__(self) -> AsyncGenerator[AudioChunk, None]:
        """As in `tts_adapter.voice.Utterance`."""
        try:
            await self._interruption.wait(self._begun.wait())
            while self._connection is not None and not self._finished:
                for chunk in await self._received(self._connection):
                    yield chunk
                    if self._interruption.is_set:
                        raise Interrupted
            for chunk in self._marker.finish():
                yield chunk
        except Interrupted:
            if self._error is not None:
                raise self._error from None

    async def _received(self, connection: ClientConnection) -> Sequence[AudioChunk]:
        """Chunks of the next message."""
        limit_s = self._voice.endpoint.stall_s if self._flushed else self._voice.endpoint.keep_alive_s
        try:
            message = await self._interruption.wait(connection.recv(), limit_s)
        except TimeoutError:
            if self._finished:
                return ()
            if self._flushed:
                raise self._fail(f"nothing heard for {limit_s:g} s") from None
            await self._send(self._dialect.keep_alive())
            return ()
        except ConnectionClosed as closed:
            raise self._fail(_kind(closed)) from None
        chunks: list[AudioChunk] = []
        try:
            events = self._dialect.receive(message)
        except (ValueError, KeyError, TypeError) as error:
            raise self._fail(f"a message that is not its protocol ({type(error).__name__})") from None
        for event in events:
            match event:
                case Sounded(segment, samples):
                    chunks += self._marker.push(segment, samples)
                case SegmentEnded():
                    chunks += self._marker.finish()
                case Answered(frames):
                    await self._send(frames)
                case Failed(reason):
                    raise self._fail(reason)
                case Finished():
                    self._finished = True
        if self._flushed and self._dialect.spoken:
            self._finished = True
        return chunks

    async def _send(self, frames: Sequence[Wire]) -> None:
        """Send in order, on a connection that is taken for the first frame."""
        if not frames:
            return
        try:
            if self._connection is None:
                self._connection = await self._interruption.wait(self._voice.take())
            for frame in frames:
                await self._interruption.wait(self._connection.send(frame))
        except Interrupted:
            pass
        except ConnectionClosed:
            pass  # The iteration meets it too, after what the service said before it closed.
        except VoiceError as error:
            self._error = error
            self._interruption.set()
        self._begun.set()

    def _fail(self, reason: str) -> VoiceError:
        self._error = VoiceError(f"{self._voice.name}: {reason}")
        self._interruption.set()
        return self._error


def _kind(error: Exception) -> str:
    """What went wrong, without what a server wrote: that may hold the text that was to be spoken."""
    if isinstance(error, ConnectionClosed):
        return f"connection closed, code {error.rcvd.code if error.rcvd is not None else 1006}"
    status = getattr(getattr(error, "response", None), "status_code", None)
    return f"HTTP status {status}" if status is not None else type(error).__name__
