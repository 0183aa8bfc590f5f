"""From names in the settings to voices. Each voice's module is imported only when the voice is wanted."""

from typing import get_args

from tts_adapter.voice import Voice, VoiceError
from tts_adapter.voices.options import VoiceName, VoiceOptions

VOICE_NAMES: tuple[str, ...] = get_args(VoiceName)


def make_voice(options: VoiceOptions) -> Voice | None:
    """The voice to speak with, not started: one, or a list that stands in for each other. None for no names.

    Raises:
        VoiceError: a voice lacks a setting or a package, which is named.
    """
    if not all(_accepts_tokens(name, options) for name in options.names):
        # One that needs whole segments means that segments are what all of them get.
        options = options.model_copy(
            update={
                name: getattr(options, name).model_copy(update={"accepts_tokens": False})
                for name in ("elevenlabs", "cartesia")
            }
        )
    voices = [make_one(name, options) for name in options.names]
    if len(voices) < 2:
        return voices[0] if voices else None
    from tts_adapter.voices.fallback import FallbackVoice

    return FallbackVoice(voices, rest_s=options.rest_s)


def make_one(name: str, options: VoiceOptions) -> Voice:
    """The voice called `name`.

    Raises:
        VoiceError: as `make_voice`; or there is no such voice.
    """
    try:
        match name:
            case "piper":
                from tts_adapter.voices.piper import PiperVoice

                return PiperVoice(**dict(options.piper))
            case "tone":
                from tts_adapter.voices.tone import ToneVoice

                return ToneVoice(**dict(options.tone))
            case "elevenlabs":
                from tts_adapter.voices.elevenlabs import elevenlabs_voice

                return elevenlabs_voice(options.elevenlabs)
            case "cartesia":
                from tts_adapter.voices.cartesia import cartesia_voice

                return cartesia_voice(options.cartesia)
            case "deepgram":
                from tts_adapter.voices.deepgram import deepgram_voice

                return deepgram_voice(options.deepgram)
            case "openai":
                from tts_adapter.voices.openai import OpenAIVoice

                return OpenAIVoice(options.openai)
            case "rime":
                from tts_adapter.voices.rime import rime_voice

                return rime_voice(options.rime)
            case "kokoro":
                from tts_adapter.voices.kokoro import KokoroVoice

                return KokoroVoice(options.kokoro)
            case _:
                raise VoiceError(f"no voice is called {name}; there are {', '.join(VOICE_NAMES)}")
    except ModuleNotFoundError as error:
        raise VoiceError(f"{name}: the package {error.name} is not installed") from None


def _accepts_tokens(name: str, options: VoiceOptions) -> bool:
    return bool(getattr(getattr(options, name), "accepts_tokens", False))
