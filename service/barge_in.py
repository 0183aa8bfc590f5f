"""When the caller breaks in: probabilities of speech become facts, with a minimum duration and a way back.

Speech is suspected at its first sound, when a reply should hold still; it counts once it has lasted `min_speech_ms`.
A cough that ends sooner is a false alarm, and the reply goes on where it was. Speech that counted but brought no words
from the recogniser is reported too, so that a reply cut short for nothing can be taken up again. Two thresholds keep a
probability that hovers between them from flickering, as Silero's own iterator does (silero-vad, `VADIterator`).

Pure: time comes in as `now` (seconds, monotonic).
"""

from dataclasses import dataclass
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class BargeInOptions(BaseModel):
    """When a sound of the caller counts as speech."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    threshold: float = Field(0.5, gt=0, le=1, description="Probability from which a chunk of audio is speech.")
    release: float = Field(
        0.15, ge=0, lt=1, description="How far below the threshold a chunk must fall to be silence again."
    )
    min_speech_ms: float = Field(200.0, ge=0, le=5000, description="Shortest speech that interrupts the reply.")
    max_gap_ms: float = Field(120.0, ge=0, le=5000, description="Silence that a word may contain before it counts.")
    end_silence_ms: float = Field(500.0, ge=0, le=10000, description="Silence that ends speech.")
    no_words_ms: float = Field(
        2000.0, ge=0, le=60000, description="After speech, the recogniser has this long to bring words."
    )

    @model_validator(mode="after")
    def _release_below_threshold(self) -> Self:
        if self.release >= self.threshold:
            raise ValueError("release must be below threshold")
        return self


@dataclass(frozen=True, slots=True)
class SpeechSuspected:
    """The caller may have begun to speak: hold the reply."""


@dataclass(frozen=True, slots=True)
class FalseAlarm:
    """It was no speech: let the reply go on where it was held."""


@dataclass(frozen=True, slots=True)
class SpeechStarted:
    """The caller speaks, since `began_at`: a reply under way is interrupted."""

    began_at: float


@dataclass(frozen=True, slots=True)
class SpeechEnded:
    """The caller has stopped; the last sound was at `ended_at`."""

    ended_at: float


@dataclass(frozen=True, slots=True)
class NothingSaid:
    """Speech was heard but no words came of it: an interrupted reply may be taken up again."""


BargeInFact = SpeechSuspected | FalseAlarm | SpeechStarted | SpeechEnded | NothingSaid


class BargeIn:
    """One caller's voice."""

    def __init__(self, options: BargeInOptions | None = None) -> None:
        self._options = options or BargeInOptions()
        self._began_at: float | None = None  # of what is suspected or under way
        self._counts = False
        self._speech_ms = 0.0
        self._silence_ms = 0.0
        self._worded = False  # words have come of the speech under way
        self._words_due_at: float | None = None

    @property
    def undecided(self) -> bool:
        """True while a sound is suspected to be speech, or speech is under way: only more audio can settle it."""
        return self._began_at is not None

    @property
    def speaking(self) -> bool:
        """True while speech that counts is under way."""
        return self._counts

    def hear(self, probability: float, chunk_ms: float, now: float) -> list[BargeInFact]:
        """The next chunk of the caller's audio, which ended at `now`."""
        facts = self.due(now)
        if probability >= self._options.threshold:
            return [*facts, *self._sound(chunk_ms, now)]
        if self._began_at is None:
            return facts
        if self._counts and probability >= self._options.threshold - self._options.release:
            return facts  # neither: speech that counts goes on; a suspicion must be decided
        return [*facts, *self._silence(chunk_ms, now)]

    def words(self) -> None:
        """The recogniser has brought words: what was heard was speech indeed."""
        self._words_due_at = None
        self._worded = self._counts

    def due(self, now: float) -> list[BargeInFact]:
        """What time alone has decided."""
        if self._words_due_at is None or now < self._words_due_at:
            return []
        self._words_due_at = None
        return [NothingSaid()]

    def next_wakeup(self) -> float | None:
        """When `due` has something to say, if nothing else happens."""
        return self._words_due_at

    def _sound(self, chunk_ms: float, now: float) -> list[BargeInFact]:
        facts: list[BargeInFact] = []
        if self._began_at is None:
            self._began_at, self._speech_ms = now - chunk_ms / 1000, 0.0
            facts.append(SpeechSuspected())
        self._silence_ms = 0.0
        self._speech_ms += chunk_ms
        if not self._counts and self._speech_ms >= self._options.min_speech_ms:
            self._counts, self._worded = True, False
            self._words_due_at = None
            facts.append(SpeechStarted(self._began_at))
        return facts

    def _silence(self, chunk_ms: float, now: float) -> list[BargeInFact]:
        self._silence_ms += chunk_ms
        limit_ms = self._options.end_silence_ms if self._counts else self._options.max_gap_ms
        if self._silence_ms < limit_ms:
            return []
        counted, ended_at = self._counts, now - self._silence_ms / 1000
        self._began_at, self._counts, self._silence_ms = None, False, 0.0
        if not counted:
            return [FalseAlarm()]
        if not self._worded:
            self._words_due_at = now + self._options.no_words_ms / 1000
        return [SpeechEnded(ended_at)]
