"""OpenAI's speech endpoint, and servers that speak like it: one request per segment, PCM streamed back.

Protocol: https://platform.openai.com/docs/api-reference/audio/createSpeech (`response_format` pcm: 24 kHz, int16,
little-endian, mono).
"""

from collections.abc import AsyncGenerator
from weakref import WeakSet

import httpx
import numpy as np

from tts_adapter.voice import Samples, VoiceError
from tts_adapter.voices.options import OpenAIVoiceOptions
from tts_adapter.voices.segments import SegmentUtterance

_PIECE_BYTES = 4800
"""100 ms at 24 kHz."""

_LONGEST_TEXT = 4096


class OpenAIVoice:
    """The endpoint as a voice.

    Raises:
        VoiceError: a setting is missing.
    """

    name = "openai"
    accepts_tokens = False

    def __init__(self, options: OpenAIVoiceOptions) -> None:
        if options.api_key is None:
            raise VoiceError("openai: the setting voice.openai.api_key is missing")
        self.sample_rate_hz = options.sample_rate_hz
        self._options = options
        self._key = options.api_key
        self._client: httpx.AsyncClient | None = None
        self._utterances: WeakSet[SegmentUtterance] = WeakSet()

    async def start(self) -> None:
        """Make the client; connections are opened by the first replies and kept."""
        try:
            self._client = httpx.AsyncClient(
                base_url=self._options.url,
                headers={"Authorization": f"Bearer {self._key.get_secret_value()}"},
                timeout=httpx.Timeout(self._options.stall_s, connect=self._options.connect_s),
            )
        except httpx.InvalidURL:
            raise VoiceError("openai: the url is not an address") from None

    def open(self, turn_id: int) -> SegmentUtterance:
        """As in `tts_adapter.voice.Voice`."""
        utterance = SegmentUtterance(turn_id, self.sample_rate_hz, self._synthesize)
        self._utterances.add(utterance)
        return utterance

    async def stop(self) -> None:
        """As in `tts_adapter.voice.Voice`."""
        for utterance in set(self._utterances):
            await utterance.cancel()
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _synthesize(self, text: str) -> AsyncGenerator[Samples, None]:
        if self._client is None:
            raise VoiceError("openai: not started")
        body: dict[str, object] = {
            "model": self._options.model,
            "voice": self._options.voice,
            "input": text[:_LONGEST_TEXT],
            "response_format": "pcm",
        }
        if self._options.instructions is not None:
            body["instructions"] = self._options.instructions
        try:
            async with self._client.stream("POST", "audio/speech", json=body) as response:
                if response.status_code != httpx.codes.OK:
                    raise VoiceError(f"openai: HTTP status {response.status_code}")
                async for data in response.aiter_bytes(_PIECE_BYTES):
                    yield np.frombuffer(data[: len(data) // 2 * 2], dtype="<i2").astype(np.int16)
        except httpx.HTTPError as error:
            raise VoiceError(f"openai: {type(error).__name__}") from None
