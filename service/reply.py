"""What is known of one reply while it grows: its tokens, its text, its timing. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate

from engine.api import FinishReason, TokenBurst


@dataclass(frozen=True, slots=True)
class ReplyToken:
    """One token on its way out: `index` from 0 within the reply, `burst` the engine step it came in.

    `burst_ms`: when the engine made that step, since the reply was asked for.
    """

    index: int
    text: str
    burst: int
    burst_ms: float


@dataclass(slots=True)
class Reply:
    """A reply under way. Times are loop time (seconds); None: not yet."""

    turn_id: int
    asked_at: float
    token_ids: list[int] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)
    finish_reason: FinishReason | None = None
    bursts: int = 0
    step_time_s: float = 0.0
    step_tokens: int = 0
    first_burst_at: float | None = None
    first_token_at: float | None = None
    first_segment_at: float | None = None
    first_chunk_at: float | None = None
    first_frame_at: float | None = None
    prompt_tokens: int = 0
    cached_tokens: int = 0
    queued_s: float | None = None
    _first_core_time_s: float | None = None
    _last_core_time_s: float | None = None

    @property
    def text(self) -> str:
        """All of it so far, as the model said it."""
        return "".join(self.pieces)

    def add(self, burst: TokenBurst, now: float) -> tuple[list[ReplyToken], float | None]:
        """Take one burst: its tokens to deliver, and the step gap (None for the first step)."""
        if self.first_burst_at is None:
            self.first_burst_at = now
            self.prompt_tokens, self.cached_tokens = burst.prompt_tokens, burst.cached_tokens
            self.queued_s = burst.queued_s
        self.finish_reason = burst.finish_reason or self.finish_reason
        if not burst.token_ids:
            return [], None
        gap_s = None if self._last_core_time_s is None else burst.core_time_s - self._last_core_time_s
        self._last_core_time_s = burst.core_time_s
        if self._first_core_time_s is None:
            self._first_core_time_s = burst.core_time_s
        # From the engine's own timestamps, as step gaps are: how long the first one took to reach us shifts all alike.
        burst_ms = (self.first_burst_at - self.asked_at + burst.core_time_s - self._first_core_time_s) * 1e3
        if gap_s is not None:
            self.step_time_s += gap_s
            self.step_tokens += len(burst.token_ids)
        first = len(self.pieces)
        self.token_ids += burst.token_ids
        self.pieces += burst.pieces
        tokens = [ReplyToken(first + n, piece, self.bursts, burst_ms) for n, piece in enumerate(burst.pieces)]
        self.bursts += 1
        return tokens, gap_s

    def heard_ids(self, chars: int) -> list[int]:
        """Ids of the tokens whose text lies wholly within the first `chars` characters, up to the last one with text."""
        ends = list(accumulate(len(piece) for piece in self.pieces))
        count = sum(end <= chars for end in ends)
        while count and not self.pieces[count - 1]:
            count -= 1
        return self.token_ids[:count]

    def timings_ms(self) -> dict[str, float]:
        """What the client is told at the end of the turn (milliseconds, but for counts and ratios)."""
        return {name: value for name, value in self._timings() if value is not None}

    def first_audio_stages_s(self) -> dict[str, float]:
        """The way to the first audio frame by stage (seconds); empty before that frame."""
        if self.first_frame_at is None:
            return {}
        stages = {name: end - begin for name, begin, end in self.stages()}
        return {**stages, "total": self.first_frame_at - self.asked_at}

    def stages(self) -> Iterator[tuple[str, float, float]]:
        """What has been reached on the way to the first audio frame: each stage with its begin and end (loop time).

        `queue` is left out where the engine does not say how long the request waited.
        """
        if self.first_burst_at is None:
            return
        previous = self.asked_at
        if self.queued_s is not None:
            previous = min(self.asked_at + self.queued_s, self.first_burst_at)
            yield "queue", self.asked_at, previous
        marks = (self.first_burst_at, self.first_segment_at, self.first_chunk_at, self.first_frame_at)
        for name, at in zip(("prefill", "segment", "synthesis", "framing"), marks, strict=True):
            if at is not None:
                yield name, previous, max(previous, at)
                previous = max(previous, at)

    def _timings(self) -> Iterator[tuple[str, float | None]]:
        yield "ttft_ms", self._since_asked(self.first_token_at)
        yield "first_audio_ms", self._since_asked(self.first_frame_at)
        for stage, seconds in self.first_audio_stages_s().items():
            if stage != "total":
                yield f"first_audio_{stage}_ms", seconds * 1e3
        if self.step_tokens:
            yield "engine_tit_ms", self.step_time_s / self.step_tokens * 1e3
            yield "step_gap_ms", self.step_time_s / (self.bursts - 1) * 1e3
        if self.bursts:
            yield "tokens_per_step", len(self.token_ids) / self.bursts
        yield "tokens", float(len(self.token_ids))
        yield "prompt_tokens", float(self.prompt_tokens)
        yield "cached_tokens", float(self.cached_tokens)

    def _since_asked(self, at: float | None) -> float | None:
        return None if at is None else (at - self.asked_at) * 1e3
