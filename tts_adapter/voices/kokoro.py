"""Kokoro: a larger neural voice on this machine; its model and voices are files of your own."""

import importlib.util
from pathlib import Path

from tts_adapter.voice import VoiceError
from tts_adapter.voices.kokoro_process import KokoroProcessOptions
from tts_adapter.voices.options import KokoroOptions
from tts_adapter.voices.process_voice import ProcessVoice


class KokoroVoice(ProcessVoice):
    """Speech of a Kokoro model, 24 kHz."""

    def __init__(self, options: KokoroOptions) -> None:
        super().__init__("kokoro", "tts_adapter.voices.kokoro_process", options.stall_s)
        self._settings = options

    def prepare(self) -> KokoroProcessOptions:
        """As in `ProcessVoice`."""
        settings = self._settings
        if importlib.util.find_spec("kokoro_onnx") is None:
            raise VoiceError("kokoro: kokoro-onnx is not installed: pip install kokoro-onnx")
        return KokoroProcessOptions(
            model=_file("model", settings.model),
            voices=_file("voices", settings.voices),
            voice=settings.voice,
            language=settings.language,
            speed=settings.speed,
            threads=settings.threads,
            nice=settings.nice,
            cpus=settings.cpus,
            gain=settings.gain,
            ahead_s=settings.ahead_s,
        )


def _file(setting: str, path: Path | None) -> str:
    if path is None:
        raise VoiceError(f"kokoro: the setting voice.kokoro.{setting} is missing")
    if not path.is_file():
        raise VoiceError(f"kokoro: no file {path} (voice.kokoro.{setting})")
    return str(path)
