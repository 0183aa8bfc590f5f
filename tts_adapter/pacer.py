"""Even release of tokens that arrive in bursts: a jitter buffer between engine steps and a listener.

Pure: the caller passes `now` (seconds, monotonic), asks `next_wakeup` when to come back, and sends what `pop_ready`
gives. Tokens leave in order, each exactly once, never before they arrived. Push only tokens that carry text: an empty
one would take a place in the schedule that nobody hears.

How it decides:
- *Slack* is how long the buffered tokens last at one token per SLO, minus the time until the next burst is expected.
- The first token waits until the slack is what `PaceModel` says is needed, and never longer than `max_first_hold_ms`.
- While the slack is short, the gap is stretched towards the SLO, because a token that leaves early now is missing later:
  less what the caller may be late, and from when the last token really left. With the slack in hand the gap is
  `target_gap_ms` (less where the caller is later than that allows, or a quick engine leaves time for the way to the
  listener); with more it shrinks, so that delay does not build up.
- Where a gap is late anyway, it may be stretched more, so that the next ones are not late too: by what earlier replies
  lacked from there on, as far as `PaceModel`'s account of what such waits cost allows.
- An engine whose mean rate is below one token per SLO is followed at its mean rate.
"""

from collections import deque
from collections.abc import Sequence
from typing import Generic, TypeVar

from tts_adapter.options import PacingOptions
from tts_adapter.pace_model import REPLY_STEPS, PaceModel

T = TypeVar("T")

_MERGED_S = 0.001
_DRAIN_S = 0.25
_LEAST_GAP_SHARE = 0.25


class Pacer(Generic[T]):
    """One reply at a time; `reset` begins the next.

    Args:
        options: gaps and limits.
        model: rhythm of the engine, shared between replies (and calls); a fresh one if None.
    """

    def __init__(self, options: PacingOptions | None = None, model: PaceModel | None = None) -> None:
        self.options = options or PacingOptions()
        self._slo_s = self.options.slo_ms / 1000
        self._target_s = self.options.target_gap_ms / 1000
        self._max_hold_s = self.options.max_first_hold_ms / 1000
        self.model = model or PaceModel(self._slo_s)
        self.reset()

    def reset(self) -> None:
        """Drop what is buffered and begin a new reply."""
        self._buffer: deque[T] = deque()
        self._due: float | None = None
        self._released = False
        self._flushed = False
        self._first_arrival = 0.0
        self._last_arrival: float | None = None
        self._step: tuple[float, int] | None = None
        self._steps: list[tuple[float, int]] = []
        self._timed = True
        self._resuming = False
        self._came = 0
        self._first_release = 0.0
        self._last_release = 0.0
        self._least_starved_s = 0.0
        self._starved_s = 0.0

    @property
    def pending(self) -> int:
        """Tokens that have arrived and not left."""
        return len(self._buffer)

    def push(self, tokens: Sequence[T], now: float) -> None:
        """The tokens of one engine step have arrived. The buffer is bounded by `max_buffered_tokens`: above it the
        oldest are due at once; nothing is dropped."""
        if not tokens:
            return
        self._observe(len(tokens), now)
        was_empty = not self._buffer
        if self._released:
            lag = now - self._first_release - self._came * self.model.pace_s
            self._least_starved_s = max(self._least_starved_s, lag)
        self._came += len(tokens)
        self._buffer.extend(tokens)
        if not self._released:
            self._due = self._first_due(now)
        elif self._resuming or (was_empty and self._due is not None and self._due < now):
            self._timed, self._resuming = False, True
            self._due = now + self._wait_s(now)
        if len(self._buffer) > self.options.max_buffered_tokens:
            self._due = now

    def flush(self, now: float) -> None:
        """No more tokens will come: what is left leaves evenly, without further hold."""
        if self._flushed:
            return
        self._flushed = True
        self._commit_step()
        if self._due is not None:
            self._due = min(self._due, max(now, self._last_release + self._target()) if self._released else now)
        if self._released:
            self.model.settle(self._steps[:REPLY_STEPS], self._least_starved_s, self._starved_s)

    def next_wakeup(self) -> float | None:
        """When `pop_ready` will have something, or None while nothing is buffered."""
        return self._due if self._buffer else None

    def pop_ready(self, now: float) -> list[T]:
        """The tokens due by `now`. A late caller gets one token, then the next ones sooner, and more than one only
        above the buffer's limit."""
        ready: list[T] = []
        while self._buffer and self._due is not None and self._due <= now:
            ready.append(self._buffer.popleft())
            if self._released:
                self._starved_s += max(0.0, now - self._last_release - self._slo_s)
            else:
                self._released, self._first_release = True, now
            self._last_release, self._resuming = now, False
            self._schedule_after(now)
        return ready

    def _observe(self, count: int, now: float) -> None:
        """Learn from a burst once the next one has come: pushes within a millisecond are one engine step."""
        if self._last_arrival is None:
            self._first_arrival = now
        elif now - self._last_arrival < _MERGED_S:
            if self._step is not None:
                self._step = (self._step[0], self._step[1] + count)
            return
        else:
            self._commit_step()
            self._step = (now - self._last_arrival, count)
        self._last_arrival = now

    def _commit_step(self) -> None:
        if self._step is not None:
            self.model.observe_step(*self._step)
            self._steps.append(self._step)
            self._step = None

    def _first_due(self, now: float) -> float:
        """When the slack after the first release will be what is needed, within the longest hold."""
        missing = self.model.needed_slack_s - self._slack(now, now)
        hold_until = min(now + max(0.0, missing), self._first_arrival + self._max_hold_s)
        return max(hold_until, now) if not self._flushed else now

    def _slack(self, due: float, now: float) -> float:
        """How long the buffer outlasts the expected arrival of the next burst, if the next token leaves at `due`."""
        last = self._last_arrival if self._last_arrival is not None else now
        expected = max(now, last + self.model.step_s)
        return due + len(self._buffer) * self._pace_s() - expected

    def _pace_s(self) -> float:
        """Longest gap at which the engine is followed: the SLO, or the engine's own mean where that is longer."""
        return (self.model.token_s or self._slo_s) if self.model.is_slow else self.model.pace_s

    def _schedule_after(self, now: float) -> None:
        """Set when the next token is due, after one has left."""
        assert self._due is not None
        if self._timed:
            self.model.observe_lateness(now - self._due)
        self._timed = True
        if len(self._buffer) > self.options.max_buffered_tokens:
            self._due = now
            return
        gap = self._gap(now)
        if gap > self._target() and not self.model.is_slow:
            # Nothing to make up: as much of the SLO is used as the caller's lateness allows.
            self._due = now + gap
        else:
            # Keeps to the schedule where the caller was a little late; half a gap is made up at most.
            self._due = max(self._due, now - gap / 2) + gap

    def _wait_s(self, now: float) -> float:
        """How much a gap that is late anyway is stretched."""
        if now <= self._last_release + self._slo_s or self.model.is_slow or self._flushed:
            return 0.0
        return self.model.wait_s(len(self._steps) + 1, len(self._buffer) * self.model.pace_s)

    def _target(self) -> float:
        """The gap aimed at with the slack in hand: less than the target where the caller, or the way to the listener, may
        take more than that allows."""
        return min(self._target_s, self.model.safe_gap_s)

    def _gap(self, now: float) -> float:
        target_s = self._target()
        if self._flushed:
            return target_s
        token_s = self.model.token_s or self._target_s
        slow = self.model.is_slow
        longest = token_s if slow else max(target_s, self.model.longest_gap_s)
        excess = self._slack(now + longest, now) - self.model.needed_slack_s
        if excess <= 0:
            return longest
        normal = token_s if slow else target_s
        least = min(normal * _LEAST_GAP_SHARE, token_s / 2)
        return max(normal * (1 - excess / _DRAIN_S), least)
