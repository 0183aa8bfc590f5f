"""One simulated call over a real socket.

What comes in is handled in the socket's own callback, a few microseconds a frame; the slow part of a caller (thinking,
speaking, breaking in, hanging up) is a coroutine that wakes a few times a turn. Each utterance is due at a time that
follows from when the reply before it should have ended: if the service is late, the wait counts (no coordinated
omission).
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping

from picows import WSCloseCode, WSFrame, WSHandshakeError, WSListener, WSMsgType, WSTransport, ws_connect

from service.bridges.bridge import Transcript
from service.call_report import FRAME_S, OBJECTIVE_S, PAUSE, TurnTimes
from service.loadtest.line import Line
from service.loadtest.record import CallRecord
from service.loadtest.scenario import CallScript, TurnScript

HYPOTHESIS_EVERY_S = 0.2
LINGER_S = 0.7  # after the end, so that replies under way are not disturbed by everybody's leaving
QUIET_S = 1.5  # a pause this long ends a reply in dialects that do not say so


Post = Callable[[Transcript], Awaitable[None]]


class SimulatedCall(WSListener):
    """A caller and the bridge that carries it.

    Args:
        line: the bridge's dialect.
        record: filled as the call goes on.
        post: carries a transcript to the service, for dialects that cannot.
        patience_s: a call in which nothing comes for this long has failed.
        stop_s: no utterance begins after this.
        uplink: send the caller's (silent) audio too, fifty frames a second.
    """

    def __init__(
        self, line: Line, record: CallRecord, post: Post, patience_s: float, stop_s: float, uplink: bool = False
    ) -> None:
        self._line = line
        self._record = record
        self._post = post
        self._patience_s = patience_s
        self._stop_s = stop_s
        self._uplink = uplink
        self._now = asyncio.get_running_loop().time
        self._news = asyncio.Event()  # something the coroutine waits for: ready, first output, end, loss
        self._transport: WSTransport | None = None
        self._lost = False
        self._over = False
        self._by_turn: dict[int, TurnTimes] = {}
        self._asked: TurnTimes | None = None
        self._current: TurnTimes | None = None
        self._cut_short: TurnTimes | None = None
        self._token_index: int | None = None

    # The socket's side

    def on_ws_connected(self, transport: WSTransport) -> None:
        self._transport = transport

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        kind = frame.msg_type
        if kind is WSMsgType.TEXT:
            data: str | bytes = frame.get_payload_as_utf8_text()
        elif kind is WSMsgType.BINARY:
            data = frame.get_payload_as_bytes()
        else:
            if kind is WSMsgType.CLOSE:
                transport.send_close(frame.get_close_code())
                transport.disconnect()
            return
        if answers := self._line.receive(data, self._now(), self):
            self._send(answers)

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        self._lost = True
        self._news.set()

    # What the line understood

    def ready(self) -> None:
        self._record.ready_s = self._now()
        self._news.set()

    def token(self, turn_id: int, text: str, index: int, now: float) -> None:
        if (times := self._by_turn.get(turn_id)) is None:
            times = self._begin(turn_id)
        if times.last_output_s is None:
            self._news.set()
        times.token(text, now)
        self._token_index = index

    def audio(self, turn_id: int, frames: int, now: float) -> None:
        if (times := self._by_turn.get(turn_id)) is None:
            times = self._begin(turn_id)
        if times.last_output_s is None:
            self._news.set()
        for _ in range(frames):
            times.audio_frame(now)

    def cleared(self, turn_id: int, now: float) -> None:
        if turn_id in self._by_turn:
            self._by_turn[turn_id].playback.clear(now)

    def turn_ended(self, turn_id: int, reason: str, timings_ms: Mapping[str, float], now: float) -> None:
        times = self._by_turn.get(turn_id) or self._begin(turn_id)
        times.end(reason, timings_ms, now)
        self._news.set()

    def fault(self, code: str) -> None:
        self._record.faults.append(code)

    def ended(self) -> None:
        self._over = True

    def _begin(self, turn_id: int) -> TurnTimes:
        """The turn asked for has shown itself under this number; a turn nobody asked for is a greeting."""
        times = self._asked if self._asked is not None else TurnTimes(turn_id)
        if self._asked is None:
            self._record.turns.append(times)
        self._asked = None
        times.turn_id = turn_id
        self._by_turn[turn_id] = times
        return times

    # The caller's side

    async def hold(self, url: str, headers: Mapping[str, str], script: CallScript) -> None:
        """The whole call; its record says what came of it."""
        offered = {"Sec-WebSocket-Protocol": self._line.subprotocol} if self._line.subprotocol else {}
        try:
            await ws_connect(
                lambda: self, url, extra_headers={**headers, **offered}, websocket_handshake_timeout=self._patience_s
            )
        except WSHandshakeError as error:
            self._record.status = int(error.response.status) if error.response is not None else 0
            self._record.outcome = "refused" if self._record.status else "failed"
            return
        except (OSError, TimeoutError):
            self._record.outcome = "failed"
            return
        if self._transport is None:  # the service went away in the middle of the upgrade
            self._record.outcome = "failed"
            return
        try:
            async with asyncio.TaskGroup() as tasks:
                speaking = tasks.create_task(self._send_audio(), name="uplink") if self._uplink else None
                self._record.outcome = await self._converse(script)
                if speaking is not None:
                    speaking.cancel()
        finally:
            self._record.ended_s = self._now()
            await self._leave()
            self._transport = None  # it refers back to this object, which would wait for a garbage collection

    async def _send_audio(self) -> None:
        due_s = self._now()
        while not self._lost:
            self._send(self._line.caller_audio(self._now()))
            due_s += FRAME_S
            await asyncio.sleep(due_s - self._now())

    async def _leave(self) -> None:
        assert self._transport is not None
        if self._record.outcome == "hung_up":
            self._transport.underlying_transport.abort()
        elif not self._lost:
            self._send(self._line.end())
            self._transport.send_close(WSCloseCode.OK)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                await self._transport.wait_disconnected()
        self._transport.disconnect(graceful=False)

    async def _converse(self, script: CallScript) -> str:
        self._send(self._line.start(self))
        if not await self._until(lambda: self._record.ready_s is not None):
            return "lost" if self._lost else "failed"
        due_s = self._now()
        for turn in script.turns:
            due_s = self._now() if self._cut_short is not None else due_s + turn.think_s
            if due_s > self._stop_s:
                # Holds the line: its place would go to a new caller, and all of them would come at once.
                await self._sleep(self._stop_s + LINGER_S)
                break
            if (outcome := await self._exchange(turn, due_s)) is not None:
                return outcome
            due_s = self._should_have_ended_s(due_s)
        return "done"

    def _should_have_ended_s(self, due_s: float) -> float:
        """When the reply would have ended had it begun at once and kept to the objective."""
        times = self._current
        if times is None:
            return due_s
        if times.reason == PAUSE:
            return self._now()  # that it had ended could only be supposed, after a pause
        if times.interrupted_s is not None:
            return times.interrupted_s
        tokens_s, audio_s = len(times.token_times_s) * OBJECTIVE_S, len(times.frame_lateness_s) * FRAME_S
        return due_s + (audio_s if self._line.has_audio else tokens_s)

    async def _exchange(self, turn: TurnScript, due_s: float) -> str | None:
        """One utterance and its reply; the call's outcome if it ended the call."""
        for number, text in enumerate(turn.hypotheses if self._cut_short is None else ()):
            await self._sleep(due_s - (len(turn.hypotheses) - number) * HYPOTHESIS_EVERY_S)
            await self._say(text, final=False)
        await self._sleep(due_s)
        if self._lost or self._over:
            return "lost"
        if self._cut_short is not None:
            self._cut_short.interrupted_s = self._now()
            self._cut_short.playback.clear(self._now())
            self._cut_short = None
        times = TurnTimes(-1, asked_s=due_s, sent_s=self._now())
        self._asked, self._current, self._token_index = times, times, None
        self._record.turns.append(times)
        await self._say(turn.text, final=True)
        if not await self._until(lambda: times.last_output_s is not None or times.ended_s is not None):
            return "lost" if self._lost else "failed"
        return await self._listen(turn, times)

    async def _listen(self, turn: TurnScript, times: TurnTimes) -> str | None:
        begun_s = self._now()
        hang_up_s = _after(begun_s, turn.hang_up_after_s)
        interrupt_s = _after(begun_s, turn.interrupt_after_s)
        while times.ended_s is None or times.playback.left_s(self._now()) > 0:
            wake_s = min(at for at in (hang_up_s, interrupt_s, self._now() + self._line.tick_s) if at is not None)
            await self._until(lambda: times.ended_s is not None, wake_s)
            now = self._now()
            if self._lost:
                return "lost"
            if now > max(times.last_output_s or 0.0, begun_s) + self._patience_s:
                return "failed"
            if hang_up_s is not None and now >= hang_up_s:
                return "hung_up"
            self._tick(times)
            if interrupt_s is not None and now >= interrupt_s and times.ended_s is None:
                interrupt_s = None
                if not self._line.can_interrupt:
                    self._cut_short = times  # by the next utterance, which follows at once
                    return None
                self._interrupt(times)
            self._suppose_end(times)
            if times.ended_s is not None and (left_s := times.playback.left_s(now)) > 0:
                await self._sleep(now + left_s)
        self._tick(times)
        if hang_up_s is not None:  # the reply was shorter than the caller's patience
            return "hung_up"
        return "failed" if times.reason == "error" else None

    def _suppose_end(self, times: TurnTimes) -> None:
        """Where the dialect does not say that a reply has ended, a pause says so."""
        silent = self._line.says_end and (times.interrupted_s is None or self._line.says_interrupted)
        if silent or times.ended_s is not None or times.last_output_s is None:
            return
        now = self._now()
        if now > times.last_output_s + times.playback.left_s(now) + QUIET_S:
            times.end(PAUSE, {}, times.last_output_s)

    def _interrupt(self, times: TurnTimes) -> None:
        now = self._now()
        heard_ms = 1000 * times.playback.position_s(now) if self._line.has_audio else None
        times.playback.clear(now)
        times.interrupted_s = now
        self._send(self._line.interrupt(heard_ms, now))

    def _tick(self, times: TurnTimes) -> None:
        now = self._now()
        audio_ms = round(1000 * times.playback.position_s(now), 1) if self._line.has_audio else None
        self._send(self._line.tick(times.turn_id, audio_ms, None if self._line.has_audio else self._token_index, now))

    async def _say(self, text: str, final: bool) -> None:
        said = self._line.said(text, final, self._now())
        if isinstance(said, Transcript):
            await self._post(said)
        else:
            self._send(said)

    def _send(self, frames: list[str | bytes]) -> None:
        if self._lost or self._transport is None:
            return
        for frame in frames:
            if isinstance(frame, str):
                self._transport.send(WSMsgType.TEXT, frame.encode())
            else:
                self._transport.send(WSMsgType.BINARY, frame)

    async def _sleep(self, until_s: float) -> None:
        """Until then, or until the call is lost."""
        await self._until(lambda: False, until_s)

    async def _until(self, reached: Callable[[], bool], until_s: float | None = None) -> bool:
        """True once `reached`; False when the call was lost or the time is over (default: patience)."""
        deadline_s = self._now() + self._patience_s if until_s is None else until_s
        while not reached():
            if self._lost or self._now() >= deadline_s:
                return False
            self._news.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(deadline_s):
                    await self._news.wait()
        return True


def _after(begun_s: float, delay_s: float | None) -> float | None:
    return None if delay_s is None else begun_s + delay_s
