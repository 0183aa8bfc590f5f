"""Forwards a caller's audio to the platform's own recogniser and takes its transcripts. Optional.

One WebSocket per call. The first message is JSON: `{"call_id", "encoding", "sample_rate_hz"}`; then each binary message
is audio in that format. The recogniser answers with JSON text messages `{"text", "final", "language"}`, as the
transcript endpoint takes them. Whatever goes wrong there never disturbs the call: audio waits for `MAX_BACKLOG_S` (then
the oldest is dropped), a lost connection is made again after growing pauses, and what is no transcript is ignored.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from json import dumps

from pydantic import ValidationError
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException

from service.alarm import Alarm
from service.audio_backlog import AudioBacklog
from service.protocols.events import AudioFormat, Event, UserText
from service.transcripts import Transcript

logger = logging.getLogger("voicepace.recogniser")

MAX_BACKLOG_S = 2.0
OPEN_WITHIN_S = 5.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0
STEADY_S = 10.0  # a connection that lasted this long was a good one: the next pause is short again
MAX_MESSAGE_BYTES = 65_536


class Recogniser:
    """The line to the recogniser of one call.

    Args:
        url: ws:// or wss:// address.
        key: sent as a bearer key; None: none.
        call_id: of the call.
        audio: format of the caller's audio.
        take: given each transcript as an event of the call.
    """

    def __init__(
        self,
        url: str,
        key: str | None,
        call_id: str,
        audio: AudioFormat,
        take: Callable[[list[Event]], Awaitable[None]],
    ) -> None:
        self._url = url
        self._headers = {"Authorization": f"Bearer {key}"} if key else None
        self._hello = dumps({"call_id": call_id, "encoding": audio.encoding, "sample_rate_hz": audio.sample_rate_hz})
        self._take = take
        self._loop = asyncio.get_running_loop()
        self._backlog = AudioBacklog(audio, MAX_BACKLOG_S)
        self._alarm = Alarm()

    def hear(self, payload: bytes) -> None:
        """Audio of the caller has just come."""
        self._backlog.push(payload)
        self._alarm.ring()

    async def run(self) -> None:
        """Until cancelled.

        Raises:
            CallLost: from `take`, in an ExceptionGroup.
        """
        pause_s = FIRST_PAUSE_S
        while True:
            began = self._loop.time()
            try:
                await self._connected()
            except* (OSError, TimeoutError, WebSocketException) as errors:
                logger.warning("recogniser: %s; trying again", type(errors.exceptions[0]).__name__)
            if self._loop.time() - began >= STEADY_S:
                pause_s = FIRST_PAUSE_S
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def _connected(self) -> None:
        """One connection, until it is lost."""
        async with connect(
            self._url,
            additional_headers=self._headers,
            open_timeout=OPEN_WITHIN_S,
            close_timeout=1.0,
            max_size=MAX_MESSAGE_BYTES,
            compression=None,
        ) as socket:
            await socket.send(self._hello)
            async with asyncio.TaskGroup() as tasks:
                sending = tasks.create_task(self._send(socket), name="recogniser-audio")
                await self._receive(socket)
                sending.cancel()

    async def _send(self, socket: ClientConnection) -> None:
        try:
            while True:
                await self._alarm.wait_until(None)
                for payload in self._backlog.take():
                    await socket.send(payload)
        except ConnectionClosed:
            pass  # the receiving side ends with it

    async def _receive(self, socket: ClientConnection) -> None:
        """Transcripts, until the recogniser closes."""
        async for message in socket:
            try:
                said = Transcript.model_validate_json(message)
            except ValidationError:
                logger.debug("recogniser: a message that is no transcript")
                continue
            await self._take([UserText(said.text, said.final, said.language)])
