"""One loudness for a whole reply. Pure."""

import numpy as np
import numpy.typing as npt

_FULL_SCALE = 32768.0
_ACTIVE_SHARE_OF_PEAK = 0.05
_PEAK_LIMIT = 0.9


def reply_gain(samples: npt.NDArray[np.int16], target_dbfs: float | None, max_gain_db: float) -> float:
    """The factor that brings the speech in `samples` to `target_dbfs` (RMS of what is not a pause).

    Chosen once, from the audio at hand when a reply begins, and kept: a gain per sentence would make loudness jump.
    Bounded by `max_gain_db` up and down, and by the peak.
    """
    if target_dbfs is None or not len(samples):
        return 1.0
    values = samples.astype(np.float64) / _FULL_SCALE
    peak = float(np.abs(values).max())
    active = values[np.abs(values) >= peak * _ACTIVE_SHARE_OF_PEAK]
    rms = float(np.sqrt(np.mean(active**2)))
    if rms == 0.0:
        return 1.0
    bound = 10 ** (max_gain_db / 20)
    wanted = 10 ** (target_dbfs / 20) / rms
    return float(max(1 / bound, min(wanted, bound, max(1.0, _PEAK_LIMIT / peak))))
