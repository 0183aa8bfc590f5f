"""The level of a voice: bounded, true to what was heard, and steady from reply to reply."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tts_adapter.gain import VoiceLevel


def speech(level_dbfs: float, seconds: float, seed: int = 0) -> np.ndarray:
    """Noise of an RMS level, with a pause in its middle."""
    samples = np.random.default_rng(seed).standard_normal(round(8000 * seconds)) * 10 ** (level_dbfs / 20) * 32768
    samples[len(samples) // 3 : len(samples) // 2] *= 0.001
    return np.clip(samples, -32768, 32767).astype(np.int16)


def db(factor: float) -> float:
    return float(20 * np.log10(factor))


@pytest.mark.parametrize("level_dbfs", [-30.0, -26.0, -22.0, -16.0])
def test_speech_is_brought_to_the_level_and_pauses_do_not_count(level_dbfs: float) -> None:
    level = VoiceLevel()
    level.hear(speech(level_dbfs, 2.0))
    assert db(level.gain(-20.0, 30.0)) == pytest.approx(-20.0 - level_dbfs, abs=1.0)


def test_without_a_target_or_anything_heard_nothing_changes() -> None:
    level = VoiceLevel()
    assert level.gain(-20.0, 6.0) == 1.0
    level.hear(np.zeros(0, np.int16))
    level.hear(np.zeros(100, np.int16))
    assert level.gain(-20.0, 6.0) == 1.0
    level.hear(speech(-30.0, 1.0))
    assert level.gain(None, 6.0) == 1.0


@given(st.lists(st.floats(-60.0, -6.0), min_size=1, max_size=6), st.floats(0.0, 12.0), st.integers(0, 8000))
def test_the_gain_is_bounded_and_lifts_no_peak_over_the_limit(
    levels: list[float], max_gain_db: float, assumed: int
) -> None:
    level, heard = VoiceLevel(assumed), []
    for number, value in enumerate(levels):
        heard.append(speech(value, 0.2, number))
        level.hear(heard[-1])
    gain = level.gain(-20.0, max_gain_db)
    assert abs(db(gain)) <= max_gain_db + 1e-6
    peak = max(int(np.abs(samples.astype(int)).max()) for samples in heard)
    assert gain <= 1.0 or gain * peak <= 0.9 * 32768 + 1


def test_a_quiet_first_syllable_moves_a_known_voice_little() -> None:
    known, unknown = VoiceLevel(4000), VoiceLevel(4000)
    for reply in range(3):
        known.hear(speech(-22.0, 3.0, reply))
    before = known.gain(-20.0, 6.0)
    for level in (known, unknown):
        level.hear(speech(-32.0, 0.14, 9))
    assert db(known.gain(-20.0, 6.0) / before) == pytest.approx(0.0, abs=0.3)
    assert 0.5 < db(unknown.gain(-20.0, 6.0)) < 6.0


def test_a_voice_that_changes_is_followed() -> None:
    level = VoiceLevel()
    level.hear(speech(-30.0, 30.0))
    for part in range(12):
        level.hear(speech(-18.0, 10.0, part))
    assert db(level.gain(-20.0, 12.0)) == pytest.approx(-2.0, abs=1.0)
