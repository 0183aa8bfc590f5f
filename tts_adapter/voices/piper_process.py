"""The process that runs Piper: the only importer of `piper`, which is GPL. Started by `tts_adapter.voices.piper`."""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tts_adapter.voices.piper_model import Feed, load
from tts_adapter.voices.silence import Floats
from tts_adapter.voices.speaking_process import ProcessOptions, serve

_SAMPLE = "One moment please."


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
    """A loaded Piper model.

    Phonemes are Piper's own work; the model is run here, because `PiperVoice` gives a sentence at once and scales each
    to full range, so that "Yes." shouts.
    """

    def __init__(self, options: PiperProcessOptions) -> None:
        from piper import PiperVoice
        from piper.config import PiperConfig

        config = PiperConfig.from_dict(json.loads(Path(options.model + ".json").read_text(encoding="utf-8")))
        self.sample_rate_hz: int = config.sample_rate
        self._voice = PiperVoice(session=None, config=config)
        length_scale = config.length_scale if options.length_scale is None else options.length_scale
        self._scales = np.array([config.noise_scale, length_scale, config.noise_w_scale], np.float32)
        self._speaker: int | None = None
        if config.num_speakers > 1:
            self._speaker = config.default_speaker_id if options.speaker is None else options.speaker
        self._model = load(options.model, options.threads, self._feed(self.sentences(_SAMPLE)[0]))

    def sentences(self, text: str) -> list[list[str]]:
        """Phonemes, sentence by sentence."""
        return [sentence for sentence in self._voice.phonemize(text) if sentence]

    def audio(self, sentence: list[str]) -> Iterator[Floats]:
        """As in `Synthesis`."""
        return self._model.audio(self._feed(sentence))

    def _feed(self, sentence: list[str]) -> Feed:
        """The model's inputs: ids int64 [1, n], their number int64 [1], scales float32 [3], the speaker int64 [1]."""
        ids = self._voice.phonemes_to_ids(sentence)
        feed: dict[str, Any] = {"input": np.array([ids], np.int64), "input_lengths": np.array([len(ids)], np.int64)}
        feed["scales"] = self._scales
        if self._speaker is not None:
            feed["sid"] = np.array([self._speaker], np.int64)
        return feed


if __name__ == "__main__":
    _options = PiperProcessOptions(**json.loads(sys.argv[1]))
    serve(_options, lambda: PiperSynthesis(_options))
