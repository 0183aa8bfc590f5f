"""One call: events in from the bridge, one turn at a time out.

The session is one TaskGroup. A turn is one task in it; barge-in cancels that task and awaits it, after which nothing of
the turn can leave, because all that sends for it were its own tasks. What was heard of a reply is settled when the
caller next speaks (or interrupts), and only that enters the history.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial
from typing import Literal, assert_never

from engine.api import EngineDead, GenerateRequest, RequestRefused, TokenBurst
from service.channel import CallLost, Channel
from service.conversation import Conversation, PromptTooLong
from service.equipment import Equipment
from service.greeting import spoken
from service.hearing import Hearing
from service.playback_ledger import PlaybackLedger
from service.prewarm import Prewarm
from service.protocols.events import (
    AudioFormat,
    BadMessage,
    CallEnded,
    CallerAudio,
    CallStarted,
    ClearAudio,
    Dialect,
    DigitPressed,
    EndTurn,
    Event,
    Fault,
    FlowPaused,
    FlowResumed,
    Frame,
    HangUp,
    Ignored,
    Interrupted,
    MarkReached,
    Played,
    Ready,
    ToolCall,
    ToolResult,
    UserText,
)
from service.protocols.events import Reply as ProtocolReply
from service.rate_limit import RateLimit
from service.reply import Reply, ReplyToken
from service.speech import SentFrame, Speech
from service.task_group import TaskGroup
from service.tool_use import ToolUse, offered
from service.turn import Turn
from tts_adapter.pacer import Pacer

Receive = Callable[[], Awaitable[Frame | None]]


class Session:
    """One call.

    Args:
        dialect: of the bridge.
        channel: the way out.
        equipment: shared by all calls.
    """

    def __init__(self, dialect: Dialect, channel: Channel, equipment: Equipment) -> None:
        self._dialect = dialect
        self._channel = channel
        self._shared = equipment
        self._metrics = equipment.metrics.stream(dialect.surface, dialect.name)
        self._loop = asyncio.get_running_loop()
        self._lock = asyncio.Lock()
        rate_wpm = equipment.settings.conversation.speaking_rate_wpm
        self._ledger = PlaybackLedger(reports_position=False, speaking_rate_wpm=rate_wpm)
        self._conversation: Conversation | None = None
        self._prewarm: Prewarm | None = None
        self._hearing: Hearing | None = None
        self._tools: ToolUse | None = None
        self._audio: AudioFormat | None = None
        self._turn: Turn | None = None
        self._turn_task: asyncio.Task[None] | None = None
        self._greeting = False
        self._cut_short = False  # the last reply ended before it was heard to its end
        self._ended = False
        self._turns = 0
        self._digits = ""
        self._limit: asyncio.Timeout | None = None
        self._end_reason: str | None = None
        self.call_id: str | None = None

    async def run(self, receive: Receive) -> None:
        """Until either side ends the call. `receive` returns None once the peer has closed."""
        self._metrics.calls.inc()
        try:
            async with TaskGroup() as self._tasks:
                peer_left = await self._receive(receive)
                await self._stop()
                if not peer_left and self._end_reason != "ended_by_peer":
                    await self._channel.send(HangUp(self._end_reason or "done"))
        except* CallLost:
            pass
        finally:
            self._ended, self._turn, self._hearing = True, None, None  # they refer back to this object
            self._metrics.calls.dec()
            if self.call_id is not None:
                self._shared.calls.leave(self.call_id)

    def hang_up(self, reason: str) -> None:
        """End the call from our side, at once; the peer is told why."""
        self._end_reason = reason
        if self._limit is not None:
            self._limit.reschedule(self._loop.time())

    async def take(self, events: list[Event]) -> None:
        """Handle events in order. Several sources may call this; each batch is handled as one.

        Raises:
            CallLost: the peer has gone, or takes no data.
        """
        async with self._lock:
            if not self._ended:
                for event in events:
                    await self._handle(event)

    async def go_on(self) -> None:
        """A sound ended the last reply, but no words came of it: take the reply up where it was heard to."""
        async with self._lock:
            if self._ended or not self._cut_short or self._conversation is None:
                return
            self._cut_short = False
            prompt = self._conversation.go_on()
            if prompt is not None:
                self._begin_turn(self._generate(prompt))

    async def _stop(self) -> None:
        """Nothing is taken or sent any more, and nothing is left running."""
        if self._hearing is not None:
            await self._hearing.stop()
        async with self._lock:
            self._ended = True
            await self._cancel_turn()
            if self._prewarm is not None:
                await self._prewarm.stop()

    async def _receive(self, receive: Receive) -> bool:
        """Until the call ends; True where the peer has closed."""
        server = self._shared.settings.server
        rate = RateLimit(server.max_messages_per_s)
        try:
            async with asyncio.timeout(server.max_call_s) as self._limit:
                while self._end_reason is None:
                    async with asyncio.timeout(server.idle_timeout_s):
                        data = await receive()
                    if data is None:
                        return True
                    if not rate.allows(self._loop.time()):
                        self._end_reason = "too_many_messages"
                        break
                    await self.take(self._dialect.receive(data, self._loop.time()))
        except TimeoutError:
            if self._end_reason is None:
                expired = self._limit is not None and self._limit.expired()
                self._end_reason = "time_limit" if expired else "idle"
        return False

    async def _handle(self, event: Event) -> None:
        match event:
            case CallStarted():
                await self._start(event)
            case UserText(text) if not text.strip():
                pass  # recognisers send such for sounds that were no words
            case UserText(text, final):
                if self._hearing is not None:
                    self._hearing.words()
                await (self._answer(text) if final else self._read_ahead(text))
            case Interrupted():
                await self._settle(event)
            case Played(turn_id, audio_ms, token_index):
                self._ledger.reports_position = True
                self._ledger.played(turn_id, audio_ms, token_index)
            case MarkReached(name, played):
                self._ledger.mark(name, played, self._loop.time())
            case DigitPressed(digit):
                self._digits += digit
            case FlowPaused():
                self._channel.pause()
            case FlowResumed():
                self._channel.resume()
            case CallEnded():
                self._end_reason = "ended_by_peer"
            case BadMessage(field, reason, message_type):
                self._metrics.bad_messages.inc()
                what = f"{message_type}: {field}: {reason}" if message_type else f"{field}: {reason}"
                await self._channel.send(Fault("bad_message", what, field))
            case Ignored():
                self._metrics.ignored_messages.inc()
            case ProtocolReply(frames):
                await self._channel.send_frames(frames)
            case ToolResult():
                await self._tool_result(event)
            case CallerAudio(payload):
                if self._hearing is not None:
                    self._hearing.hear(payload)
            case _:
                assert_never(event)

    async def _start(self, started: CallStarted) -> None:
        options = self._shared.settings.conversation
        engine = self._shared.engine
        room = engine.max_model_len - options.max_reply_tokens
        self._conversation = Conversation(
            engine.tokenizer,
            started.system_prompt or options.system_prompt,
            min(options.max_history_tokens, room),
            started.tools if self._shared.tool_reader is not None else (),
        )
        self._audio = started.audio
        # A native client may report what it played or not; until it first does, what was sent counts.
        self._ledger.reports_position = self._dialect.reports_position and self._dialect.surface != "voice"
        self.call_id = self._shared.calls.new_id(started.call_id)
        self._shared.calls.enter(self.call_id, self)
        if options.read_ahead:
            self._prewarm = Prewarm(engine, self._tasks, self.call_id)
        await self._channel.send(Ready(self.call_id))
        if started.tools:
            try:
                self._tools = offered(started.tools, self._shared.tool_reader, engine.tokenizer, self._conversation)
            except RequestRefused as refused:
                self._conversation.tools = ()
                await self._channel.send(Fault("no_tools", refused.reason, refused.parameter))
        if self._audio is not None and self._shared.voice is None:
            await self._channel.send(Fault("no_voice", "this service runs without a voice", "audio"))
            self._audio = None
        if started.audio is not None:
            surface = self._dialect.surface
            self._hearing = Hearing(self, self._channel, self._shared, surface, self.call_id, started.audio)
            self._hearing.start(self._tasks)
        if started.greeting:
            self._greeting = True
            self._begin_turn(spoken(started.greeting))

    async def _read_ahead(self, text: str) -> None:
        turn = self._turn
        speaking = turn is not None and not turn.complete
        if self._prewarm is None or self._conversation is None or speaking:
            return
        heard = [] if turn is None or self._greeting else turn.reply.token_ids
        self._prewarm.read(self._conversation.preview(text, heard))

    async def _answer(self, text: str) -> None:
        if self._prewarm is not None:
            await self._prewarm.stop()
        await self._settle(None)
        self._cut_short = False
        conversation = self._conversation
        if conversation is None:
            await self._channel.send(Fault("not_started", "the call has not been started", "type"))
            return
        if self._digits:
            conversation.note(f"(Keys pressed: {self._digits})")
            self._digits = ""
        try:
            prompt = conversation.ask(text)
        except PromptTooLong:
            await self._channel.send(Fault("too_long", "longer than the model can read", "text"))
            return
        self._begin_turn(self._generate(prompt))

    def _generate(self, prompt: tuple[int, ...]) -> AsyncGenerator[TokenBurst, None]:
        sampling = self._shared.settings.conversation.sampling
        bursts = self._shared.engine.generate(GenerateRequest(f"{self.call_id}-{self._turns}", prompt, sampling))
        return bursts if self._tools is None else self._tools.read(bursts)

    async def _tool_result(self, result: ToolResult) -> None:
        turn, conversation = self._turn, self._conversation
        if self._tools is None or turn is None or conversation is None or not self._tools.take(result):
            await self._channel.send(Fault("no_tool_call", "no tool call is waiting for a result", "tool_call_id"))
            return
        results = self._tools.results()
        if results is None:
            return
        if self._turn_task is not None:
            await asyncio.wait([self._turn_task])
        try:
            self._begin_turn(self._generate(conversation.called(turn.reply.token_ids, results)))
        except PromptTooLong:
            await self._channel.send(Fault("too_long", "longer than the model can read", "content"))

    def _begin_turn(self, bursts: AsyncGenerator[TokenBurst, None]) -> None:
        reply = Reply(self._turns, self._loop.time())
        self._turns += 1
        self._shared.calls.admission.observe_load(self._shared.calls.count, self._shared.engine.running + 1)
        captions = self._audio is None or self._dialect.captions
        pacer = Pacer[ReplyToken](self._shared.settings.pacing, self._shared.pace_model) if captions else None
        self._turn = Turn(reply, bursts, self._channel.send, self._metrics, pacer, self._speech(reply), self)
        following = self._shared.traces.follow(partial(self._run_turn, self._turn), reply, self._dialect)
        self._turn_task = self._tasks.create_task(following, name=f"turn-{reply.turn_id}")

    def _speech(self, reply: Reply) -> Speech | None:
        voice = self._shared.voice
        if self._audio is None or voice is None:
            return None
        options = self._shared.settings.speech
        send, metrics, sent = self._channel.send, self._metrics, self.frame_sent
        return Speech(reply, voice, self._audio, options, self._shared.normaliser, send, metrics, sent)

    async def _run_turn(self, turn: Turn) -> None:
        reply = turn.reply
        reason: Literal["stop", "length", "error", "tool_calls"] = "error"
        calls: list[ToolCall] = []
        try:
            await turn.run()
            calls = [] if self._tools is None else self._tools.called(reply.turn_id)
            reason = "tool_calls" if calls else "length" if reply.finish_reason == "length" else "stop"
        except* EngineDead:
            await self._channel.send(Fault("engine_unavailable", "the engine has failed; it is being restarted"))
        except* RequestRefused as refused:
            await self._channel.send(Fault("refused", str(refused.exceptions[0])))
        turn.complete = True
        self._metrics.turn_ended(reason)
        self._metrics.first_audio(reply.first_audio_stages_s())
        for call in calls:
            await self._channel.send(call)
        await self._channel.send(EndTurn(reply.turn_id, reason, timings_ms=reply.timings_ms()))

    async def _cancel_turn(self) -> bool:
        """Stop the turn under way; True where that cut it short. Nothing of it leaves afterwards."""
        turn, task, self._turn_task = self._turn, self._turn_task, None
        if turn is None or task is None or task.done():
            return False
        cut = not turn.complete
        if cut:
            task.cancel()
        await asyncio.wait([task])
        return cut

    async def _settle(self, interrupt: Interrupted | None) -> None:
        """End the turn under way, if any, and store what was heard of it. `interrupt` None: the caller just spoke."""
        turn = self._turn
        if turn is None:
            return
        asked_at = self._loop.time()
        cut = await self._cancel_turn()
        self._turn = None
        if self._tools is not None:
            self._tools.drop()
        reply = turn.reply
        if cut or interrupt is not None or self._audio is not None:
            # Also where everything had been sent: the bridge may still be playing it.
            await self._channel.send(ClearAudio(reply.turn_id))
        silent_at = self._loop.time()
        heard_chars = self._heard_chars(reply, cut, interrupt, silent_at)
        self._cut_short = heard_chars < len(reply.text) and not self._greeting
        self._remember(reply, heard_chars)
        if cut:
            closed_at = turn.engine_closed_at
            self._metrics.barge_in(silent_at - asked_at, None if closed_at is None else max(0.0, closed_at - asked_at))
            self._metrics.turn_ended("interrupted")
            heard = reply.text[:heard_chars]
            await self._channel.send(EndTurn(reply.turn_id, "interrupted", heard, reply.timings_ms()))

    def _heard_chars(self, reply: Reply, cut: bool, interrupt: Interrupted | None, now: float) -> int:
        turn_id = reply.turn_id
        if self._audio is not None:
            self._ledger.add_text(turn_id, reply.text)
        if cut or interrupt is not None:
            told = interrupt or Interrupted()
            self._ledger.interrupted(turn_id, now, told.heard_text, told.heard_ms)
        else:
            self._ledger.finished(turn_id, now)
        return min(self._ledger.heard_chars(turn_id), len(reply.text))

    def _remember(self, reply: Reply, heard_chars: int) -> None:
        assert self._conversation is not None
        if self._greeting:
            self._greeting = False
            if heard_chars:
                self._conversation.opened_with(reply.text[:heard_chars])
            return
        self._conversation.answered(reply.heard_ids(heard_chars))

    def stepped(self, gap_s: float | None, tokens: int) -> None:
        """A turn's `Observer`: the engine has made a step for this call."""
        if self._greeting:
            return
        self._metrics.step(gap_s, tokens)
        if gap_s is not None:
            self._shared.calls.admission.step_times.observe(self._shared.engine.running, gap_s, tokens)

    def token_sent(self, token: ReplyToken, now: float) -> None:
        """A turn's `Observer`: the client has been sent a token."""
        if self._audio is None and self._turn is not None:
            self._ledger.sent_token(self._turn.reply.turn_id, token.index, token.text, now)

    def frame_sent(self, frame: SentFrame, now: float) -> None:
        """The speech's observer: an audio frame has left."""
        if self._turn is not None:
            turn_id = self._turn.reply.turn_id
            self._ledger.sent_audio(turn_id, frame.start_char, frame.end_char, frame.audio_ms, now, frame.mark)
