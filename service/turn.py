"""One reply under way: the engine's bursts in, tokens and audio out. Cancelling `run` is the whole of barge-in.

The reading of the engine never waits for a client. Tokens that carry text (not every one does) go to the pacer where the
client can take tokens, and unpaced to the speech of a voice that needs whole clauses. When `run` is cancelled the
engine's iterator is closed first, which aborts the request; nothing leaves after that, because everything that sends is
a task of this turn.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Protocol

from engine.api import TokenBurst
from service.alarm import Alarm
from service.metrics import StreamMetrics
from service.protocols.events import Command, SendToken
from service.reply import Reply, ReplyToken
from service.speech import Speech
from service.task_group import TaskGroup
from tts_adapter.pacer import Pacer

Send = Callable[[Command], Awaitable[bool]]


class Observer(Protocol):
    """Whoever keeps the books of the call."""

    def stepped(self, gap_s: float | None, tokens: int) -> None:
        """The engine yielded `tokens`, `gap_s` after the reply's last burst (None: the first)."""

    def token_sent(self, token: ReplyToken, now: float) -> None:
        """The send of a token has returned."""


class Turn:
    """Generates and delivers one reply.

    Args:
        reply: filled while the turn runs; outlives it.
        bursts: the engine's iterator for the request; closing it aborts the request.
        send: the call's way out; raises when the call is lost.
        metrics: of the call's surface.
        pacer: None where the client takes no tokens.
        speech: None where the client takes no audio.
        observer: told of every step, and of each token whose send has returned.
    """

    def __init__(
        self,
        reply: Reply,
        bursts: AsyncGenerator[TokenBurst, None],
        send: Send,
        metrics: StreamMetrics,
        pacer: Pacer[ReplyToken] | None,
        speech: Speech | None,
        observer: Observer,
    ) -> None:
        self.reply = reply
        self.speech = speech
        self.engine_closed_at: float | None = None
        self.complete = False
        self._bursts = bursts
        self._send = send
        self._metrics = metrics
        self._pacer = pacer
        self._observer = observer
        self._loop = asyncio.get_running_loop()
        self._alarm = Alarm()
        self._read_all = False
        self._last_sent_at: float | None = None

    async def run(self) -> None:
        """Until the last token or audio frame has been sent.

        Raises:
            EngineDead, RequestRefused, CallLost: alone or in an ExceptionGroup.
        """
        async with TaskGroup() as tasks:
            if self.speech is not None:
                tasks.create_task(self.speech.run(), name="speech")
            if self._pacer is not None:
                tasks.create_task(self._deliver(self._pacer), name="deliver")
            await self._read()

    async def _read(self) -> None:
        try:
            async with aclosing(self._bursts) as bursts:
                async for burst in bursts:
                    now = self._loop.time()
                    tokens, gap_s = self.reply.add(burst, now)
                    if tokens:
                        self._observer.stepped(gap_s, len(tokens))
                        self._feed(tokens, now)
        finally:
            self.engine_closed_at = self._loop.time()
        self._read_all = True
        if self._pacer is not None:
            self._pacer.flush(self._loop.time())
        if self.speech is not None:
            self.speech.finish()
        self._alarm.ring()

    def _feed(self, tokens: list[ReplyToken], now: float) -> None:
        spoken = [token for token in tokens if token.text]
        if self._pacer is not None and spoken:
            due = self._pacer.next_wakeup()
            self._pacer.push(spoken, now)
            if self._pacer.next_wakeup() != due:
                self._alarm.ring()
        if self.speech is not None:
            self.speech.push("".join(token.text for token in spoken))

    async def _deliver(self, pacer: Pacer[ReplyToken]) -> None:
        while True:
            for token in pacer.pop_ready(self._loop.time()):
                await self._deliver_token(token)
            if self._read_all and not pacer.pending:
                return
            await self._alarm.wait_until(pacer.next_wakeup())

    async def _deliver_token(self, token: ReplyToken) -> None:
        await self._send(SendToken(self.reply.turn_id, token.index, token.text, token.burst, token.burst_ms))
        now = self._loop.time()
        self._observer.token_sent(token, now)
        if self._last_sent_at is None:
            self.reply.first_token_at = now
            self._metrics.ttft(now - self.reply.asked_at)
        else:
            self._metrics.delivered(now - self._last_sent_at)
        self._last_sent_at = now
