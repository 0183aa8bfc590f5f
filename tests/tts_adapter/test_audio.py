"""Rates and encodings through the libraries."""

import numpy as np
import pytest

from tts_adapter.audio import SAMPLE_RATES_HZ, Encoding, Resampler, decode, encode


def tone(rate: int, seconds: float = 1.0, hz: float = 440.0) -> np.ndarray:
    return (10000 * np.sin(np.arange(int(rate * seconds)) * 2 * np.pi * hz / rate)).astype(np.int16)


def test_pcm16_is_little_endian_and_exact() -> None:
    assert encode(np.array([1, -2, 300], np.int16), "pcm16") == b"\x01\x00\xfe\xff\x2c\x01"
    samples = tone(8000)
    assert np.array_equal(decode(encode(samples, "pcm16"), "pcm16"), samples)


@pytest.mark.parametrize(("encoding", "silence"), [("mulaw", 0xFF), ("alaw", 0xD5)])
def test_g711_is_one_byte_a_sample_and_close(encoding: Encoding, silence: int) -> None:
    samples = tone(8000)
    payload = encode(samples, encoding)
    assert len(payload) == len(samples)
    assert encode(np.zeros(4, np.int16), encoding) == bytes([silence] * 4)
    error = decode(payload, encoding).astype(float) - samples
    assert 10 * np.log10(np.mean(samples.astype(float) ** 2) / np.mean(error**2)) > 35


def test_an_odd_payload_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="payload"):
        decode(b"\x00", "pcm16")


@pytest.mark.parametrize("to_hz", SAMPLE_RATES_HZ["pcm16"])
@pytest.mark.parametrize("from_hz", [16000, 22050, 24000])
def test_a_stream_resamples_without_seam_loss_or_drift(from_hz: int, to_hz: int) -> None:
    source = tone(from_hz)
    resampler = Resampler(from_hz, to_hz)
    parts = [resampler.process(source[at : at + 441]) for at in range(0, len(source), 441)]
    parts.append(resampler.process(np.zeros(0, np.int16), last=True))
    out = np.concatenate(parts)
    assert abs(len(out) - to_hz) <= 1
    expected = tone(to_hz)
    middle = slice(to_hz // 10, -to_hz // 10)
    assert np.abs(out[: len(expected)].astype(int)[middle] - expected[: len(out)][middle]).max() < 60


def test_last_gives_everything_and_the_next_call_begins_anew() -> None:
    resampler = Resampler(22050, 8000)
    first = resampler.process(tone(22050, 0.5), last=True)
    second = resampler.process(tone(22050, 0.5), last=True)
    assert len(first) == 4000
    assert np.array_equal(first, second)
    assert len(resampler.process(np.zeros(0, np.int16), last=True)) == 0


def test_equal_rates_pass_through() -> None:
    samples = tone(8000)
    assert Resampler(8000, 8000).process(samples) is samples
