"""What a voice is: text goes in, labelled audio comes out.

A `Voice` lives as long as the service; `open(turn_id)` begins one reply and returns an `Utterance`. Every chunk carries
the turn it belongs to, so that nothing of a cancelled turn can be mistaken for the next one.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

Samples = npt.NDArray[np.int16]


class VoiceError(Exception):
    """The voice failed; the message is one clear line without any of the text that was to be spoken."""


@dataclass(frozen=True, slots=True)
class AudioChunk:
    """Some mono audio of one pushed text.

    Attributes:
        turn_id: the reply this belongs to.
        segment: index of the `push` whose text is spoken, from 0, never decreasing within a turn.
        samples: int16, shape [n], at the voice's own rate.
        sample_rate_hz: that rate.
        last: True on the last chunk of the segment.
    """

    turn_id: int
    segment: int
    samples: Samples
    sample_rate_hz: int
    last: bool = False


class Utterance(Protocol):
    """The speaking of one reply. One task pushes; one task iterates."""

    async def push(self, text: str) -> None:
        """Speak `text` after what was pushed before. May wait: the queue is bounded.

        Raises:
            VoiceError: the voice has failed.
        """

    async def flush(self) -> None:
        """No more text will come: the iteration ends once everything pushed has been spoken."""

    async def cancel(self) -> None:
        """Stop at once: the iteration ends, no further chunk of this turn is yielded. Safe to repeat."""

    async def close(self) -> None:
        """Free what this utterance holds. Cancels first if it was not finished. Safe to repeat."""

    def __aiter__(self) -> AsyncIterator[AudioChunk]:
        """Chunks in the order of the text.

        Raises:
            VoiceError: the voice has failed; chunks already yielded stand.
        """


class Voice(Protocol):
    """A source of speech."""

    @property
    def name(self) -> str:
        """As in the settings."""

    @property
    def sample_rate_hz(self) -> int:
        """Of every chunk."""

    @property
    def accepts_tokens(self) -> bool:
        """True: feed it tokens as they come, paced. False: feed it whole segments, unpaced."""

    async def start(self) -> None:
        """Load and warm up.

        Raises:
            VoiceError: naming what is missing.
        """

    def open(self, turn_id: int) -> Utterance:
        """Begin a reply. Several may be open at a time, one per call."""

    async def stop(self) -> None:
        """End every utterance and free what the voice holds. Safe to repeat."""
