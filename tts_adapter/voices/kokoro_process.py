"""The process that runs Kokoro by `kokoro-onnx`. Started by `tts_adapter.voices.kokoro`.

Its streaming call could wait for ever when synthesis raised, so the blocking one is used, a sentence at a time.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tts_adapter.voices.onnx_sessions import onnx_session
from tts_adapter.voices.silence import Floats
from tts_adapter.voices.speaking_process import ProcessOptions, serve


@dataclass(frozen=True, kw_only=True)
class KokoroProcessOptions(ProcessOptions):
    """What the model needs besides: paths of the .onnx model and of the voices, which voice, language (`en-us`), speed."""

    model: str
    voices: str
    voice: str
    language: str
    speed: float


class KokoroSynthesis:
    """A loaded Kokoro model, 24 kHz."""

    sample_rate_hz = 24_000

    def __init__(self, options: KokoroProcessOptions) -> None:
        from kokoro_onnx import Kokoro  # type: ignore[import-not-found, unused-ignore]

        self._options = options
        self._kokoro = Kokoro.from_session(onnx_session(options.model, options.threads), options.voices)
        if options.voice not in self._kokoro.voices:
            raise ValueError(f"no voice {options.voice} in {options.voices}")

    def sentences(self, text: str) -> list[str]:
        """The text as it is: segments are sentences already."""
        return [text] if any(character.isalnum() for character in text) else []

    def audio(self, sentence: str) -> Iterator[Floats]:
        """As in `Synthesis`: one piece."""
        options = self._options
        samples, _ = self._kokoro.create(sentence, options.voice, options.speed, options.language, trim=False)
        yield np.asarray(samples, np.float32).ravel()


if __name__ == "__main__":
    _options = KokoroProcessOptions(**json.loads(sys.argv[1]))
    serve(_options, lambda: KokoroSynthesis(_options))
