"""Silence at the ends of synthesised speech: it delays the first sound and stretches joints between clauses. Pure.

Measured on the Piper voice en_US-joe-medium: 30-60 ms before the first sound, 110-310 ms after the last one.
"""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

_WINDOW_S = 0.01
_SILENT_RMS = 0.003
"""-50 dBFS: above the noise floor of the voices (below -60), below the quietest consonant onsets."""

_TERMINATORS = frozenset(".!?…:;。！？｡؟।॥۔")
_CLOSERS = "\"'”’»)]}」』 \t\n"


def ends_sentence(text: str) -> bool:
    """Whether a speaker would pause after `text`, as opposed to going on."""
    stripped = text.rstrip(_CLOSERS)
    return stripped[-1:] in _TERMINATORS


class Trimmer:
    """Sound that comes in pieces, with at most so much silence before and after it.

    Cuts at multiples of 10 ms, only where the level is under -50 dBFS, so no click arises. What may be the silence after
    the sound waits until it is known whether more follows. All silence: unchanged.

    Args:
        sample_rate_hz: of the sound.
        lead_s: silence left before it, at most.
        tail_s: silence left after it, at most.
    """

    def __init__(self, sample_rate_hz: int, *, lead_s: float, tail_s: float) -> None:
        self._window = round(_WINDOW_S * sample_rate_hz)
        self._lead = round(lead_s / _WINDOW_S)
        self._tail = round(tail_s / _WINDOW_S)
        self._windows = 0
        self._unmeasured: Floats = np.zeros(0, np.float32)
        self._waiting: Floats = np.zeros(0, np.float32)
        self._given = 0
        self._free: int | None = None

    def push(self, samples: Floats) -> Floats:
        """The next piece; returns what has become certain."""
        self._waiting = np.concatenate([self._waiting, samples])
        loud = self._loud(samples)
        if len(loud):
            if self._free is None:
                self._given = max(0, int(loud[0]) - self._lead) * self._window
                self._waiting = self._waiting[self._given :]
            self._free = (int(loud[-1]) + 1 + self._tail) * self._window
        if self._free is None:
            return self._waiting[:0]
        ready = self._waiting[: max(0, self._free - self._given)]
        self._waiting = self._waiting[len(ready) :]
        self._given += len(ready)
        return ready

    def finish(self) -> Floats:
        """The sound is complete; returns what is left of it."""
        return self._waiting if self._free is None else self._waiting[:0]

    def _loud(self, samples: Floats) -> npt.NDArray[np.intp]:
        """Numbers of the windows, from the beginning of the sound, that `samples` completes and that are not silent."""
        samples = np.concatenate([self._unmeasured, samples])
        count, first = len(samples) // self._window, self._windows
        self._windows += count
        self._unmeasured = samples[count * self._window :]
        levels = np.sqrt(np.mean(np.square(samples[: count * self._window].reshape(count, self._window)), axis=1))
        return first + np.flatnonzero(levels > _SILENT_RMS)
