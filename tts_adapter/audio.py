"""Sample rates and encodings, by libraries: soxr resamples, audioop does G.711 (ITU-T).

Pure but for its imports. Samples are mono int16; PCM16 bytes are little-endian.
"""

import warnings
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

with warnings.catch_warnings():
    # In the standard library up to 3.12; from 3.13 on the audioop-lts package brings it under the same name.
    warnings.simplefilter("ignore", DeprecationWarning)
    import audioop

Samples = npt.NDArray[np.int16]
Encoding = Literal["pcm16", "mulaw", "alaw"]

SAMPLE_RATES_HZ: dict[Encoding, tuple[int, ...]] = {
    "pcm16": (8000, 16000, 22050, 24000),
    "mulaw": (8000,),
    "alaw": (8000,),
}
"""What bridges may ask for."""


def encode(samples: Samples, encoding: Encoding) -> bytes:
    """Bytes of `samples` for the wire: 2 per sample as PCM16, 1 as G.711."""
    pcm = np.ascontiguousarray(samples, dtype="<i2").tobytes()
    if encoding == "mulaw":
        return audioop.lin2ulaw(pcm, 2)
    if encoding == "alaw":
        return audioop.lin2alaw(pcm, 2)
    return pcm


def decode(payload: bytes, encoding: Encoding) -> Samples:
    """Samples of a payload from the wire.

    Raises:
        ValueError: PCM16 with an odd number of bytes.
    """
    if encoding == "mulaw":
        payload = audioop.ulaw2lin(payload, 2)
    elif encoding == "alaw":
        payload = audioop.alaw2lin(payload, 2)
    elif len(payload) % 2:
        raise ValueError(f"payload: {len(payload)} bytes are not a whole number of 16-bit samples")
    return np.frombuffer(payload, dtype="<i2").astype(np.int16)


class Resampler:
    """A stream of samples from one rate to another, without a seam between chunks.

    soxr keeps about 0.1 s back until more comes; pass `last` at the end of a segment to get it at once. The next call
    then begins a new stream.

    Args:
        from_hz: rate of the input.
        to_hz: rate wanted.
    """

    def __init__(self, from_hz: int, to_hz: int) -> None:
        self.from_hz = from_hz
        self.to_hz = to_hz
        # Now, while a reply is awaited: loading the library takes some 70 ms the first time.
        self._stream: Any = self._open() if from_hz != to_hz else None

    def process(self, samples: Samples, last: bool = False) -> Samples:
        """The samples that are ready; over a whole stream, len(input) * to_hz / from_hz of them, rounded."""
        if self.from_hz == self.to_hz:
            return samples
        if self._stream is None:
            if not len(samples):
                return samples
            self._stream = self._open()
        out = self._stream.resample_chunk(np.ascontiguousarray(samples, dtype=np.int16), last=last)
        if last:
            self._stream = None
        return cast(Samples, out)

    def _open(self) -> Any:
        import soxr

        return soxr.ResampleStream(self.from_hz, self.to_hz, 1, dtype="int16", quality="HQ")
