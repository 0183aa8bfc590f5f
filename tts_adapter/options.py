"""Settings of pacing and speech. The service's settings tree embeds these; the descriptions are its documentation."""

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class PacingOptions(BaseModel):
    """How tokens are released to clients and voices that take tokens."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_first_hold_ms: float = Field(
        default=120.0, ge=0.0, le=2000.0, description="Longest time the first token of a reply may be held back."
    )
    target_gap_ms: float = Field(
        default=18.0, gt=0.0, le=1000.0, description="Gap aimed at while the buffer holds what is needed."
    )
    slo_ms: float = Field(
        default=20.0, gt=0.0, le=1000.0, description="A delivered gap longer than this is late and counts as starved."
    )
    max_buffered_tokens: int = Field(
        default=256, ge=1, le=65536, description="Above this many waiting tokens the oldest are released at once."
    )

    @model_validator(mode="after")
    def _target_within_objective(self) -> Self:
        if self.target_gap_ms > self.slo_ms:
            raise ValueError("target_gap_ms must not be above slo_ms")
        return self


class SegmentOptions(BaseModel):
    """Where a reply is cut for a voice that needs whole clauses. Characters are those of the filtered text."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    first_min_words: int = Field(
        default=3, ge=1, le=50, description="The first segment may leave at a clause once it has this many words."
    )
    first_max_words: int = Field(
        default=9, ge=1, le=100, description="The first segment leaves at a word boundary once it has this many words."
    )
    first_hold_ms: float = Field(
        default=200.0,
        ge=0.0,
        le=10000.0,
        description="Longest wait for the first segment to reach a good end, once it holds `first_min_words` words.",
    )
    end_hold_ms: float = Field(
        default=150.0,
        ge=0.0,
        le=10000.0,
        description="Longest wait for the text after a mark that seems to end a sentence.",
    )
    max_hold_ms: float = Field(
        default=2500.0, ge=0.0, le=60000.0, description="Longest time any text waits for a sentence to end."
    )
    max_characters: int = Field(
        default=220, ge=20, le=2000, description="A longer sentence is cut at its best clause or word boundary."
    )
    words_per_second: float = Field(
        default=3.0, gt=0.0, le=20.0, description="Rate of speech from which the time left until silence is estimated."
    )
    reserve_ms: float = Field(
        default=400.0,
        ge=0.0,
        le=10000.0,
        description="A segment leaves at its best pause when speech would run out within this time.",
    )
    language: str = Field(
        default="en", min_length=2, max_length=8, description="Language (ISO 639-1) of the sentence rules."
    )


class PlayoutOptions(BaseModel):
    """How audio is framed and timed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    start_watermark_ms: float = Field(
        default=80.0, ge=0.0, le=2000.0, description="Audio in hand before the first frame leaves (or the whole reply)."
    )
    rebuffer_watermark_ms: float = Field(
        default=60.0, ge=0.0, le=2000.0, description="Audio in hand before sound resumes after an underrun."
    )
    max_burst_frames: int = Field(
        default=5, ge=1, le=100, description="Frames a late caller gets at once; the schedule then starts afresh."
    )
    lead_ms: float = Field(
        default=20.0,
        ge=0.0,
        le=2000.0,
        description="How far ahead of real time frames are sent, from the first one on: what one may be late by unheard.",
    )
    max_buffered_s: float = Field(
        default=30.0, gt=0.0, le=600.0, description="Audio held at most; a voice that is further ahead has to wait."
    )
    fade_ms: float = Field(
        default=8.0, ge=0.0, le=20.0, description="Fade at an interrupt, an underrun, and the edges of segments."
    )
    target_level_dbfs: float | None = Field(
        default=-20.0,
        ge=-60.0,
        le=0.0,
        description="Speech level (RMS) that one gain per reply brings the voice to; none leaves it as it is.",
    )
    max_gain_db: float = Field(default=6.0, ge=0.0, le=30.0, description="That gain is at most this, up or down.")
    silence_between_segments: bool = Field(
        default=False, description="Send silence while there is nothing to play, for bridges that need a steady stream."
    )


class SpeechOptions(BaseModel):
    """From text to frames."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    filter_text: bool = Field(default=True, description="Turn markdown, code, links and emoji into speakable text.")
    code_blocks: Literal["speak", "skip"] = Field(
        default="speak", description="What the filter does with fenced code: `speak` its text, or `skip` it."
    )
    normalise: Literal["auto", "on", "off"] = Field(
        default="auto",
        description="Write out numbers, money, dates and units in English before a voice gets them. `auto`: for the local "
        "voices; the services do it themselves.",
    )
    vocabulary_file: str | None = Field(
        default=None, description="File with lines `written = spoken`, e.g. `SQL = sequel`."
    )
    segments: SegmentOptions = SegmentOptions()
    playout: PlayoutOptions = PlayoutOptions()
