"""Piper keeps the contract; its process may die, hang or miss its files."""

import asyncio
import gc
import os
import signal
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest
from contract import Contract, collect, say, seconds

from tts_adapter.voice import Voice, VoiceError
from tts_adapter.voices.piper import PiperVoice

ALL = 60.0
"""Seconds ahead: whole replies at once, for tests that do not play them."""


class DyingPiperVoice(PiperVoice):
    """Its process is killed whenever a second segment is sent."""

    async def say(self, number: int, segment: int, text: str) -> None:
        await super().say(number, segment, text)
        if segment == 1:
            assert self.process_id is not None
            os.kill(self.process_id, signal.SIGKILL)


class TestContract(Contract):
    many = 20

    @asynccontextmanager
    async def voice(self) -> AsyncIterator[Voice]:
        yield PiperVoice(ahead_s=ALL)

    @asynccontextmanager
    async def failing(self) -> AsyncIterator[Voice]:
        yield DyingPiperVoice()


def test_after_a_kill_the_utterance_fails_and_the_next_one_works() -> None:
    async def scenario() -> None:
        voice = PiperVoice()
        await voice.start()
        try:
            first_process = voice.process_id
            assert first_process is not None
            utterance = voice.open(1)
            await utterance.push("A sentence that is being spoken while the process dies. " * 6)
            os.kill(first_process, signal.SIGKILL)
            with pytest.raises(VoiceError, match="died"):
                await collect(utterance)
            with pytest.raises(VoiceError, match="died"):
                await utterance.push("And more. ")
            await utterance.close()
            assert voice.process_id not in (None, first_process)
            assert seconds(await say(voice, 2, "I am back. ")) > 0.3
        finally:
            await voice.stop()

    asyncio.run(scenario())


def test_a_process_that_hangs_is_killed() -> None:
    async def scenario() -> None:
        voice = PiperVoice(stall_s=0.5)
        await voice.start()
        try:
            assert voice.process_id is not None
            os.kill(voice.process_id, signal.SIGSTOP)
            utterance = voice.open(1)
            await utterance.push("Nobody hears this. ")
            with pytest.raises(VoiceError, match="nothing heard from the process for 0.5 s"):
                await collect(utterance)
            await utterance.close()
        finally:
            await voice.stop()

    asyncio.run(scenario())


def test_a_short_reply_is_not_kept_waiting_by_a_long_one() -> None:
    async def scenario() -> None:
        voice = PiperVoice(ahead_s=ALL)
        await voice.start()
        try:
            long, short = voice.open(1), voice.open(2)
            ended: list[int] = []

            async def listen(utterance: object, turn_id: int) -> None:
                await collect(utterance)  # type: ignore[arg-type]
                ended.append(turn_id)

            await long.push("This is one of many sentences. " * 12)
            await long.flush()
            await short.push("Yes. ")
            await short.flush()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(listen(long, 1))
                tasks.create_task(listen(short, 2))
            assert ended == [2, 1]
        finally:
            await voice.stop()

    asyncio.run(scenario())


def test_double_brackets_are_not_phonemes() -> None:
    async def scenario() -> None:
        voice = PiperVoice(ahead_s=ALL)
        await voice.start()
        try:
            bracketed = seconds(await say(voice, 1, "Hello [[ this is quite a long remark in brackets ]] there."))
            plain = seconds(await say(voice, 2, "Hello this is quite a long remark in brackets there."))
            assert bracketed == pytest.approx(plain, rel=0.25)
        finally:
            await voice.stop()

    asyncio.run(scenario())


def test_the_sound_is_speech_at_one_level() -> None:
    async def scenario() -> None:
        voice = PiperVoice(ahead_s=ALL)
        await voice.start()
        try:
            levels = []
            for turn, text in enumerate(("Yes.", "Your order will arrive tomorrow before noon.", "Of course I can.")):
                samples = np.concatenate([chunk.samples for chunk in await say(voice, turn, text)]) / 32768
                assert np.abs(samples).max() < 1.0
                levels.append(20 * np.log10(np.sqrt(np.mean(samples**2))))
            assert min(levels) > -32
            assert max(levels) < -14
            assert max(levels) - min(levels) < 8
        finally:
            await voice.stop()

    asyncio.run(scenario())


def test_a_missing_voice_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(VoiceError, match=r"no voice file .*absent\.onnx"):
        asyncio.run(PiperVoice(model=tmp_path / "absent.onnx").start())


def test_a_broken_voice_file_is_an_error_not_a_wait(tmp_path: Path) -> None:
    model = tmp_path / "broken.onnx"
    model.write_bytes(b"not a model")
    Path(f"{model}.json").write_text("{}")
    with pytest.raises(VoiceError, match="KeyError"):
        asyncio.run(PiperVoice(model=model).start())


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(VoiceError, match=r"piper-tts is not installed.*voicepace\[piper\]"):
        asyncio.run(PiperVoice().start())


def test_the_process_inherits_no_preloaded_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "secret")

    async def environment() -> bytes:
        voice = PiperVoice()
        await voice.start()
        try:
            return await asyncio.to_thread(Path(f"/proc/{voice.process_id}/environ").read_bytes)
        finally:
            await voice.stop()

    found = asyncio.run(environment())
    assert b"LD_PRELOAD" not in found
    assert b"SOME_KEY" not in found


def test_ended_processes_leave_nothing_open() -> None:
    async def scenario() -> None:
        voice = PiperVoice()
        await voice.start()
        assert voice.process_id is not None
        os.kill(voice.process_id, signal.SIGKILL)
        while voice.process_id is not None:
            await asyncio.sleep(0.01)
        assert seconds(await say(voice, 1, "Started again by the next text. ")) > 0.3
        await voice.stop()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        asyncio.run(scenario())
        gc.collect()
    assert [str(warning.message) for warning in caught if warning.category is ResourceWarning] == []
