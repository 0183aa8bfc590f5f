"""One call through a simulated bridge: what a telephony platform would send, play and answer, on a real socket.

Such dialects do not say when a spoken reply is complete, so a pause does. Where a dialect carries no words, they are posted
to the transcript endpoint; where it has no message for an interruption, the caller breaks in by saying the next thing.
"""

import asyncio
import json
from urllib.error import HTTPError
from urllib.parse import quote, urlsplit
from urllib.request import Request, urlopen

from websockets.asyncio.client import ClientConnection

from service.bridges.bridge import (
    AudioArrived,
    Bridge,
    CallOver,
    Cleared,
    Fact,
    MarkArrived,
    Refused,
    ReplyEnded,
    TextArrived,
    Transcript,
)
from service.call_report import FRAME_S, PAUSE, TurnTimes
from service.caller import CallFailed, CallPlan, Reply, Screen
from service.protocols.events import Frame

TICK_S = 0.02
QUIET_S = 1.0  # a reply from which nothing has come for so long is over
STARTED_WITHIN_S = 5.0
SILENCE = {"pcm16": b"\x00\x00", "mulaw": b"\xff", "alaw": b"\xd5"}


class BridgeCaller:
    """A caller behind a bridge.

    Args:
        bridge: of the dialect.
        call_id: that the bridge was given.
        socket: open to the service.
        plan: what to say; its `audio` is not used, the bridge has a format of its own.
        screen: shows the call.
        url: of the service, to post transcripts to.
        key: bearer key, None without one.
    """

    def __init__(
        self,
        bridge: Bridge,
        call_id: str,
        socket: ClientConnection,
        plan: CallPlan,
        screen: Screen,
        url: str,
        key: str | None,
    ) -> None:
        self.call_id = call_id
        self.replies: list[Reply] = []
        self._bridge = bridge
        self._socket = socket
        self._plan = plan
        self._screen = screen
        self._url = url
        self._key = key
        self._now = asyncio.get_running_loop().time
        self._current: Reply | None = None
        self._broken: Reply | None = None  # broken in by the words that asked for the current one, and not cleared yet
        self._last_word_s = self._now()
        audio = bridge.audio
        self._silence = b"" if audio is None else (SILENCE[audio.encoding] * audio.frame_bytes)[: audio.frame_bytes]

    async def hold(self) -> None:
        """The whole call.

        Raises:
            CallFailed: the service ended it, or stopped answering.
        """
        await self._send(self._bridge.opening())
        last = len(self._plan.texts) - 1
        for number, text in enumerate(self._plan.texts):
            await self._ask(text, number == last)
        await self._send(self._bridge.hang_up())

    async def _ask(self, text: str, last: bool) -> None:
        self._screen.line(f"\n> {text}")
        if self._current is not None and self._current.times.ended_s is None:
            self._broken = self._current
        reply = self._current = Reply(TurnTimes(len(self.replies), asked_s=self._now()))
        self.replies.append(reply)
        await self._say(text)
        self._last_word_s = self._now()
        while not self._over(reply):
            await self._listen(self._now() + TICK_S)
            await self._send(self._bridge.tick(self._now()))
            if self._silence:
                await self._send(self._bridge.caller_audio(self._silence, self._now()))
            if self._breaks_in(reply):
                if self._bridge.audio is None:
                    reply.times.interrupted_s = self._now()
                    await self._send(self._bridge.interrupt(self._now()))
                elif not last:
                    reply.times.interrupted_s = self._now()
                    return
        self._screen.line(f"\n  [{reply.times.reason}]")

    async def _say(self, text: str) -> None:
        said = self._bridge.say(text, self._now())
        if isinstance(said, Transcript):
            await asyncio.to_thread(post, self._url, self._key, said, STARTED_WITHIN_S)
        else:
            await self._send(said)

    def _breaks_in(self, reply: Reply) -> bool:
        times, after_s = reply.times, self._plan.interrupt_after_s
        first_s = times.first_audio_s if self._bridge.audio else next(iter(times.token_times_s), None)
        if after_s is None or first_s is None or times.interrupted_s is not None or times.ended_s is not None:
            return False
        return self._now() >= first_s + after_s

    def _over(self, reply: Reply) -> bool:
        """Complete and played; silence alone settles it where the service does not say so."""
        times, now = reply.times, self._now()
        if times.ended_s is None:
            since_s = max(times.last_output_s or 0.0, times.interrupted_s or 0.0)
            if times.last_output_s is not None and now > since_s + QUIET_S:
                times.end("interrupted" if times.interrupted_s is not None else PAUSE, {}, now)
            elif now > self._last_word_s + self._plan.timeout_s:
                raise CallFailed(f"the service said nothing for {self._plan.timeout_s:g} s")
        return times.ended_s is not None and (times.interrupted_s is not None or times.playback.left_s(now) <= 0)

    async def _send(self, frames: list[Frame]) -> None:
        for frame in frames:
            await self._socket.send(frame)

    async def _listen(self, until_s: float) -> None:
        """Take what comes until then."""
        try:
            async with asyncio.timeout_at(until_s):
                while True:
                    data = await self._socket.recv()
                    self._last_word_s = self._now()
                    facts, answers = self._bridge.receive(data, self._now())
                    for fact in facts:
                        self._take(fact, self._now())
                    await self._send(answers)
        except TimeoutError:
            return

    def _take(self, fact: Fact, now: float) -> None:
        reply = self._broken or self._current or self._greeting()
        match fact:
            case TextArrived(text):
                self._screen.token(text, reply.times.token(text, now))
                reply.pieces.append(text)
            case AudioArrived(payload):
                for _ in range(max(1, round(len(payload) / len(self._silence)))):
                    reply.times.audio_frame(now)
                if reply.times.interrupted_s is None:
                    reply.frames.append(payload)
            case Cleared():
                reply.times.playback.clear(now)
                del reply.frames[round(reply.times.playback.received_s / FRAME_S) :]
                if reply.times.ended_s is None:
                    reply.times.end("interrupted", {}, now)
                self._broken = None
            case ReplyEnded() if reply.times.ended_s is None:
                reply.times.end("interrupted" if reply.times.interrupted_s is not None else "stop", {}, now)
            case Refused(reason):
                self._screen.line(f"\n  the platform would refuse this: {reason}")
            case CallOver():
                raise CallFailed("the service ended the call")
            case MarkArrived() | ReplyEnded():
                pass

    def _greeting(self) -> Reply:
        """What is said before the caller has spoken."""
        self._current = Reply(TurnTimes(0))
        self.replies.append(self._current)
        return self._current


def transcript_request(url: str, key: str | None, said: Transcript) -> Request:
    """The request that brings the caller's words to the service whose socket is at `url`."""
    parts = urlsplit(url)
    address = f"{'https' if parts.scheme == 'wss' else 'http'}://{parts.netloc}{quote(said.path)}"
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
    return Request(address, json.dumps(dict(said.body)).encode(), headers)


def post(url: str, key: str | None, said: Transcript, within_s: float) -> None:
    """Bring the caller's words to the service beside the socket, as a platform's recogniser does. Blocks.

    Raises:
        CallFailed: the service did not take them.
    """
    request = transcript_request(url, key, said)
    address = request.full_url
    for attempt in range(5):
        try:
            urlopen(request, timeout=within_s).close()
            return
        except HTTPError as error:
            error.close()
            if error.code != 404 or attempt == 4:  # 404: the call has not got as far as starting yet
                raise CallFailed(f"{address} did not take the caller's words (HTTP {error.code})") from None
        except OSError:
            raise CallFailed(f"{address} did not take the caller's words") from None
