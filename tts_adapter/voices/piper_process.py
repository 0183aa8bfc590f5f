"""The process that runs Piper: the only importer of `piper`, which is GPL. Started by `tts_adapter.voices.piper`."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tts_adapter.voices.silence import Floats
from tts_adapter.voices.speaking_process import ProcessOptions, onnx_session, serve


@dataclass(frozen=True, kw_only=True)
class PiperProcessOptions(ProcessOptions):
    """What the model needs besides.

    Attributes:
        model: path of the .onnx voice; its .onnx.json is beside it.
        length_scale: above 1 is slower. None: as the model says.
        speaker: number of the speaker in a model of several.
    """

    model: str
    length_scale: float | None = None
    speaker: int | None = None


class PiperSynthesis:
    """A loaded Piper model."""

    def __init__(self, options: PiperProcessOptions) -> None:
        from piper import PiperVoice, SynthesisConfig
        from piper.config import PiperConfig

        config = PiperConfig.from_dict(json.loads(Path(options.model + ".json").read_text(encoding="utf-8")))
        self.sample_rate_hz: int = config.sample_rate
        self._voice = PiperVoice(session=onnx_session(options.model, options.threads), config=config)
        self._config = SynthesisConfig(speaker_id=options.speaker, length_scale=options.length_scale)

    def sentences(self, text: str) -> list[list[str]]:
        """Phonemes, sentence by sentence."""
        return [sentence for sentence in self._voice.phonemize(text) if sentence]

    def audio(self, sentence: list[str]) -> Floats:
        """As in `Synthesis`. Not by `PiperVoice.synthesize`, which scales every sentence to full range, so that "Yes."
        shouts."""
        result: Any = self._voice.phoneme_ids_to_audio(self._voice.phonemes_to_ids(sentence), self._config)
        samples: Floats = result[0] if isinstance(result, tuple) else result
        return samples


if __name__ == "__main__":
    _options = PiperProcessOptions(**json.loads(sys.argv[1]))
    serve(_options, lambda: PiperSynthesis(_options))
