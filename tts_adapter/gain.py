"""One loudness for a whole reply. Pure."""

import numpy as np
import numpy.typing as npt

_FULL_SCALE = 32768.0
_ACTIVE_SHARE_OF_PEAK = 0.05
_PEAK_LIMIT = 0.9
_REMEMBERED = 200_000
"""Samples of speech: 25 s at 8 kHz. Older ones count less, so that a voice which changes is followed."""


class VoiceLevel:
    """How loud a voice speaks, from all that was heard of it, in this reply and in those before.

    A reply's gain is chosen when its first frame leaves and kept, since a gain per sentence would make loudness jump. By
    then little of it is known: 0.14 s of speech tell its level to within 3 dB (RMS of the error, Piper), while the
    sentences of a voice differ by 1.3 dB. So what is known of the voice counts, too.

    Args:
        assumed: samples of speech at the wanted level that count as heard before the first one.
    """

    def __init__(self, assumed: int = 0) -> None:
        self._assumed = assumed
        self._peak = 0.0
        self._energy = 0.0
        self._samples = 0.0

    def hear(self, samples: npt.NDArray[np.int16]) -> None:
        """More of its speech; what is not quieter than a pause counts."""
        if not len(samples):
            return
        values = np.abs(samples.astype(np.float64)) / _FULL_SCALE
        self._peak = max(self._peak, float(values.max()))
        active = values[values >= self._peak * _ACTIVE_SHARE_OF_PEAK]
        self._energy += float(np.sum(active**2))
        self._samples += len(active)
        kept = min(1.0, _REMEMBERED / max(1.0, self._samples))
        self._energy *= kept
        self._samples *= kept

    def gain(self, target_dbfs: float | None, max_gain_db: float) -> float:
        """The factor that brings the speech to `target_dbfs` (RMS of what is not a pause).

        Bounded by `max_gain_db` up and down, and by the loudest sample heard.
        """
        if target_dbfs is None or not self._energy:
            return 1.0
        target = 10 ** (target_dbfs / 20)
        energy = self._energy + self._assumed * target**2
        rms = float(np.sqrt(energy / (self._samples + self._assumed)))
        bound = 10 ** (max_gain_db / 20)
        return float(max(1 / bound, min(target / rms, bound, max(1.0, _PEAK_LIMIT / self._peak))))
