"""Speech in the caller's audio, by the Silero model (optional extra `vad`).

The ONNX file is taken out of the `silero-vad` package without importing it: its Python code needs torch and changes its
thread count. Wrapper rules as in silero-vad 6, `OnnxWrapper`: 32 ms chunks with 4 ms of context, at 8 or 16 kHz.

One `SpeechModel` serves all calls; a `SpeechDetector` belongs to one. A chunk takes little time, but it is inference:
call `feed` from a worker thread, not from the event loop.
"""

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from service.barge_in import BargeIn, BargeInFact, BargeInOptions
from service.protocols.events import AudioFormat
from tts_adapter.audio import Resampler, decode

CHUNK_MS = 32
CONTEXT_MS = 4
MODEL_FILE = "silero_vad.onnx"

Floats = npt.NDArray[np.float32]


class SpeechModelMissing(Exception):
    """The extra `vad` is not installed; the message says what to do."""


class SpeechModel:
    """The loaded network. Thread-safe; it keeps no state of its own."""

    def __init__(self) -> None:
        """Load the model.

        Raises:
            SpeechModelMissing: a package of the extra is missing.
        """
        package = importlib.util.find_spec("silero_vad")
        try:
            import onnxruntime
        except ImportError:
            raise SpeechModelMissing("speech detection needs onnxruntime: install voicepace[vad]") from None
        if package is None or not package.submodule_search_locations:
            raise SpeechModelMissing("speech detection needs silero-vad: install voicepace[vad]")
        options = onnxruntime.SessionOptions()
        options.inter_op_num_threads = options.intra_op_num_threads = 1
        path = Path(package.submodule_search_locations[0]) / "data" / MODEL_FILE
        self._session: Any = onnxruntime.InferenceSession(
            str(path), sess_options=options, providers=["CPUExecutionProvider"]
        )

    def probability(self, window: Floats, state: Floats, sample_rate_hz: int) -> tuple[float, Floats]:
        """Probability of speech in one chunk with its context (shape [n], from -1 to 1), and the next state."""
        inputs = {"input": window[np.newaxis], "state": state, "sr": np.array(sample_rate_hz, dtype=np.int64)}
        output, state = self._session.run(None, inputs)
        return float(output[0, 0]), state


class SpeechDetector:
    """Listens to one caller.

    Args:
        model: shared.
        audio: format of the caller's audio; rates other than 8 and 16 kHz are resampled to 16 kHz.
        options: when speech counts.
    """

    def __init__(self, model: SpeechModel, audio: AudioFormat, options: BargeInOptions | None = None) -> None:
        self.barge_in = BargeIn(options)
        self._model = model
        self._encoding = audio.encoding
        self._rate_hz = audio.sample_rate_hz if audio.sample_rate_hz in (8000, 16000) else 16000
        self._resampler = Resampler(audio.sample_rate_hz, self._rate_hz)
        self._chunk = self._rate_hz * CHUNK_MS // 1000
        self._state: Floats = np.zeros((2, 1, 128), dtype=np.float32)
        self._context: Floats = np.zeros(self._rate_hz * CONTEXT_MS // 1000, dtype=np.float32)
        self._waiting: Floats = np.zeros(0, dtype=np.float32)

    def feed(self, payload: bytes, now: float) -> list[BargeInFact]:
        """Some of the caller's audio, which ended at `now`.

        Raises:
            ValueError: PCM16 with an odd number of bytes.
        """
        samples = self._resampler.process(decode(payload, self._encoding))
        self._waiting = np.concatenate([self._waiting, samples.astype(np.float32) / 32768])
        facts: list[BargeInFact] = []
        while len(self._waiting) >= self._chunk:
            chunk, self._waiting = self._waiting[: self._chunk], self._waiting[self._chunk :]
            window = np.concatenate([self._context, chunk])
            self._context = chunk[-len(self._context) :]
            probability, self._state = self._model.probability(window, self._state, self._rate_hz)
            ended_at = now - len(self._waiting) / self._rate_hz
            facts += self.barge_in.hear(probability, CHUNK_MS, ended_at)
        return facts
