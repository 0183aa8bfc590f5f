"""ElevenLabs against a server that speaks its protocol over a real socket."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import numpy as np
import pytest
from contract import Contract, collect, say, seconds
from elevenlabs_server import KEY, ElevenLabs, Faults, elevenlabs_server
from pydantic import SecretStr

from tts_adapter.voice import Voice, VoiceError
from tts_adapter.voices.elevenlabs import elevenlabs_voice
from tts_adapter.voices.options import ElevenLabsOptions
from tts_adapter.voices.socket_voice import SocketVoice

REPLY = ("One", " moment", " please", ",", " I", " will", " look", ".", " Your", " table", " is", " read", "y", "!")


def options(server: ElevenLabs, **changes: object) -> ElevenLabsOptions:
    settings = {"api_key": SecretStr(KEY), "voice_id": "a-voice", "url": server.url, "stall_s": 5.0, **changes}
    return ElevenLabsOptions(**settings)  # type: ignore[arg-type]


class TestTokensContract(Contract):
    @asynccontextmanager
    async def voice(self) -> AsyncIterator[Voice]:
        async with elevenlabs_server() as server:
            yield elevenlabs_voice(options(server))

    @asynccontextmanager
    async def failing(self) -> AsyncIterator[Voice]:
        async with elevenlabs_server() as server:
            server.faults.drop_after_messages = 2
            yield elevenlabs_voice(options(server))


class TestSegmentsContract(Contract):
    @asynccontextmanager
    async def voice(self) -> AsyncIterator[Voice]:
        async with elevenlabs_server() as server:
            yield elevenlabs_voice(options(server, accepts_tokens=False, output_format="ulaw_8000"))

    @asynccontextmanager
    async def failing(self) -> AsyncIterator[Voice]:
        async with elevenlabs_server() as server:
            server.faults.error_after_messages = 1
            yield elevenlabs_voice(options(server, accepts_tokens=False))


def play(scenario: Callable[[SocketVoice, ElevenLabs], Awaitable[None]], **changes: object) -> None:
    async def body() -> None:
        async with elevenlabs_server() as server:
            voice = elevenlabs_voice(options(server, **changes))
            await voice.start()
            try:
                await scenario(voice, server)
            finally:
                await voice.stop()

    asyncio.run(body())


def test_tokens_are_spoken_to_the_last_character_and_labelled_by_push() -> None:
    async def scenario(voice: SocketVoice, server: ElevenLabs) -> None:
        chunks = await say(voice, 1, *REPLY)
        (context,) = server.contexts.values()
        assert context.spoken == "".join(REPLY) + " "
        assert context.closed
        for number, token in enumerate(REPLY):
            length = seconds([chunk for chunk in chunks if chunk.segment == number])
            extra = number == len(REPLY) - 1
            assert length == pytest.approx((len(token) + extra) * 0.02, abs=0.001)

    play(scenario)


def test_words_are_never_cut() -> None:
    async def scenario(voice: SocketVoice, server: ElevenLabs) -> None:
        await say(voice, 1, *REPLY)
        texts = [message["text"] for message in server.messages if message.get("text", "").strip()]
        assert all(text.endswith(" ") for text in texts)
        assert "ready! " in texts[-1]

    play(scenario)


def test_settings_and_format_travel_once() -> None:
    async def scenario(voice: SocketVoice, server: ElevenLabs) -> None:
        await say(voice, 1, "Hello there. ", "And goodbye.")
        assert [message.get("voice_settings") for message in server.messages if "voice_settings" in message] == [
            {"stability": 0.4, "speed": 1.1}
        ]
        assert server.queries[0]["output_format"] == ["ulaw_8000"]
        assert server.queries[0]["auto_mode"] == ["false"]
        assert server.closed_with == []
        assert voice.sample_rate_hz == 8_000

    play(scenario, stability=0.4, speed=1.1, output_format="ulaw_8000")


@pytest.mark.parametrize("output_format", ["pcm_16000", "pcm_22050", "pcm_24000", "ulaw_8000"])
def test_every_format_is_heard_as_it_was_sent(output_format: str) -> None:
    async def scenario(voice: SocketVoice, server: ElevenLabs) -> None:
        chunks = await say(voice, 1, "A tone of 440 Hz that lasts for a while.")
        samples = np.concatenate([chunk.samples for chunk in chunks]).astype(float)[: voice.sample_rate_hz // 5]
        peak = np.argmax(np.abs(np.fft.rfft(samples))) * voice.sample_rate_hz / len(samples)
        assert peak == pytest.approx(440, abs=6)

    play(scenario, output_format=output_format)


def test_replies_share_a_connection() -> None:
    async def scenario(voice: SocketVoice, server: ElevenLabs) -> None:
        for turn in range(7):
            await say(voice, turn, "Hello there. ")
        assert server.connections == 1

    play(scenario)


def test_a_cancelled_reply_closes_its_context_and_its_audio_stays_out_of_the_next() -> None:
    async def scenario(voice: SocketVoice, server: ElevenLabs) -> None:
        utterance = voice.open(1)
        await utterance.push("This sentence is long enough to be spoken before it is flushed at all. ")
        async for _ in utterance:
            await utterance.cancel()
        await utterance.close()
        after = await say(voice, 2, "Yes. ")
        cancelled, heard = server.contexts.values()
        assert cancelled.closed
        assert server.connections == 1
        assert seconds(after) == pytest.approx(len(heard.spoken) * 0.02, abs=0.001)

    play(scenario)


def test_many_barge_ins_do_not_use_up_the_contexts() -> None:
    async def scenario(voice: SocketVoice, server: ElevenLabs) -> None:
        for turn in range(12):
            utterance = voice.open(turn)
            if turn % 2:
                await utterance.push("Interrupted early. ")
            await utterance.cancel()
            await utterance.close()
        assert seconds(await say(voice, 99, "Still here. ")) > 0.2
        assert server.closed_with == []

    play(scenario)


def test_a_reply_without_sound_opens_no_context() -> None:
    async def scenario(voice: SocketVoice, server: ElevenLabs) -> None:
        assert await say(voice, 1, " ", "...", " ") == []
        assert server.contexts == {}

    play(scenario)


def test_a_pause_in_the_text_keeps_the_context_alive() -> None:
    async def scenario(voice: SocketVoice, server: ElevenLabs) -> None:
        utterance = voice.open(1)
        async with asyncio.TaskGroup() as tasks:
            listening = tasks.create_task(collect(utterance))
            await utterance.push("Let me see. ")
            while not server.contexts or not next(iter(server.contexts.values())).kept_alive:
                await asyncio.sleep(0.01)
            await utterance.push("There it is. ")
            await utterance.flush()
        assert listening.result()[-1].last
        await utterance.close()

    play(scenario, keep_alive_s=0.05)


@pytest.mark.parametrize(
    ("faults", "message"),
    [
        (Faults(silent=True), "nothing heard for 0.3 s"),
        (Faults(drop_after_messages=0), "connection closed, code 1006"),
        (Faults(drop_after_messages=1), "connection closed, code 1006"),
        (Faults(error_after_messages=1), "quota_exceeded, code 1008"),
        (Faults(garbage=True), "not its protocol"),
    ],
)
def test_a_fault_of_the_service_is_one_clear_line(faults: Faults, message: str) -> None:
    async def scenario(voice: SocketVoice, server: ElevenLabs) -> None:
        server.faults = faults
        utterance = voice.open(1)
        await utterance.push("A secret that is long enough for more than one message. ")
        await utterance.flush()
        with pytest.raises(VoiceError, match=message) as caught:
            await collect(utterance)
        assert "secret" not in str(caught.value)
        await utterance.close()
        server.faults = Faults()
        assert seconds(await say(voice, 2, "Back again. ")) > 0.2

    play(scenario, stall_s=0.3)


def test_a_slow_service_is_waited_for() -> None:
    async def scenario(voice: SocketVoice, server: ElevenLabs) -> None:
        server.faults.reply_delay_s = 0.5
        assert seconds(await say(voice, 1, "Slow but sure. ")) > 0.2

    play(scenario, stall_s=10.0)


def test_a_context_that_ends_without_audio_is_a_failure_not_silence() -> None:
    async def scenario(voice: SocketVoice, server: ElevenLabs) -> None:
        utterance = voice.open(1)
        await utterance.push("Hello there. ")
        # What a client would send that closes at once: the server then drops the text.
        await utterance._send([utterance._dialect._close()])  # type: ignore[attr-defined]
        with pytest.raises(VoiceError, match="without any audio"):
            await collect(utterance)
        await utterance.close()

    play(scenario)


def test_a_connection_that_died_while_idle_is_replaced() -> None:
    async def scenario(voice: SocketVoice, server: ElevenLabs) -> None:
        (idle,) = voice._idle
        await idle.close()
        assert seconds(await say(voice, 1, "Hello there. ")) > 0.2
        assert server.connections == 2

    play(scenario)


def test_a_wrong_key_and_an_absent_server_are_named_without_the_key() -> None:
    async def body() -> None:
        async with elevenlabs_server() as server:
            with pytest.raises(VoiceError, match=r"elevenlabs: cannot connect \(HTTP status 401\)") as caught:
                await elevenlabs_voice(options(server, api_key=SecretStr("wrong-key"))).start()
            assert "wrong-key" not in str(caught.value)
        with pytest.raises(VoiceError, match="cannot connect"):
            await elevenlabs_voice(options(server)).start()

    asyncio.run(body())


@pytest.mark.parametrize(("setting", "value"), [("api_key", None), ("voice_id", "")])
def test_a_missing_setting_is_named(setting: str, value: object) -> None:
    with pytest.raises(VoiceError, match=f"voice.elevenlabs.{setting}"):
        elevenlabs_voice(options(ElevenLabs(url="ws://nowhere"), **{setting: value}))
