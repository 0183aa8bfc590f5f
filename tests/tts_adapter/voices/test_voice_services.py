"""Cartesia, Deepgram, Rime and OpenAI against servers that speak their protocols over real sockets."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
import speech_servers as servers
from contract import Contract, collect, say, seconds
from pydantic import SecretStr
from speech_servers import KEY, Faults, Service

from tts_adapter.voice import Voice, VoiceError
from tts_adapter.voices.cartesia import CartesiaDialect, cartesia_voice
from tts_adapter.voices.deepgram import deepgram_voice
from tts_adapter.voices.openai import OpenAIVoice
from tts_adapter.voices.options import CartesiaOptions, DeepgramOptions, OpenAIVoiceOptions, RimeOptions
from tts_adapter.voices.rime import rime_voice

Scenario = Callable[[Voice, Service], Awaitable[None]]


def server(name: str) -> AbstractAsyncContextManager[Service]:
    match name:
        case "cartesia":
            return servers.socket_server(servers.cartesia, "X-API-Key", KEY)
        case "deepgram":
            return servers.socket_server(servers.deepgram, "Authorization", f"Token {KEY}")
        case "rime":
            return servers.socket_server(servers.rime, "Authorization", f"Bearer {KEY}")
    return servers.openai_server()


def voice_of(name: str, service: Service, key: str = KEY, **changes: object) -> Voice:
    common = {"api_key": SecretStr(key), "url": service.url, "stall_s": 5.0, **changes}
    match name:
        case "cartesia":
            return cartesia_voice(CartesiaOptions(voice_id="a-voice", **common))  # type: ignore[arg-type]
        case "deepgram":
            return deepgram_voice(DeepgramOptions(**common))  # type: ignore[arg-type]
        case "rime":
            return rime_voice(RimeOptions(**common))  # type: ignore[arg-type]
    return OpenAIVoice(OpenAIVoiceOptions(**common))  # type: ignore[arg-type]


class ServiceContract(Contract):
    service = ""

    @asynccontextmanager
    async def voice(self) -> AsyncIterator[Voice]:
        async with server(self.service) as service:
            yield voice_of(self.service, service)

    @asynccontextmanager
    async def failing(self) -> AsyncIterator[Voice]:
        async with server(self.service) as service:
            service.faults.error_after_texts = 1
            yield voice_of(self.service, service)


class TestCartesiaContract(ServiceContract):
    service = "cartesia"


class TestDeepgramContract(ServiceContract):
    service = "deepgram"
    many = 80


class TestRimeContract(ServiceContract):
    service = "rime"


class TestOpenAIContract(ServiceContract):
    service = "openai"


def play(name: str, scenario: Scenario, **changes: object) -> None:
    async def body() -> None:
        async with server(name) as service:
            voice = voice_of(name, service, **changes)
            await voice.start()
            try:
                await scenario(voice, service)
            finally:
                await voice.stop()

    asyncio.run(body())


@pytest.mark.parametrize("name", ["cartesia", "deepgram", "rime", "openai"])
@pytest.mark.parametrize("faults", [Faults(silent=True), Faults(drop_after_texts=0), Faults(error_after_texts=0)])
def test_a_fault_of_the_service_is_an_error_and_the_next_reply_works(name: str, faults: Faults) -> None:
    async def scenario(voice: Voice, service: Service) -> None:
        service.faults = faults
        utterance = voice.open(1)
        await utterance.push("A secret that is not spoken. ")
        await utterance.flush()
        with pytest.raises(VoiceError, match=f"^{name}: ") as caught:
            await collect(utterance)
        assert "secret" not in str(caught.value)
        await utterance.close()
        service.faults = Faults()
        assert seconds(await say(voice, 2, "Back again. ")) > 0.2

    play(name, scenario, stall_s=0.3)


async def start_and_speak(voice: Voice) -> None:
    await voice.start()
    utterance = voice.open(1)
    await utterance.push("Hello. ")
    await collect(utterance)


@pytest.mark.parametrize("name", ["cartesia", "deepgram", "rime", "openai"])
def test_a_wrong_key_is_named_without_the_key(name: str) -> None:
    async def body() -> None:
        async with server(name) as service:
            voice = voice_of(name, service, key="wrong-key")
            try:
                with pytest.raises(VoiceError, match="HTTP status 401") as caught:
                    await start_and_speak(voice)
                assert "wrong-key" not in str(caught.value)
            finally:
                await voice.stop()

    asyncio.run(body())


@pytest.mark.parametrize("name", ["cartesia", "deepgram", "rime", "openai"])
def test_every_segment_is_labelled_with_its_own_audio(name: str) -> None:
    texts = ("One moment please. ", "Your table is ready. ", "Goodbye. ")

    async def scenario(voice: Voice, service: Service) -> None:
        chunks = await say(voice, 1, *texts)
        for number, text in enumerate(texts):
            length = seconds([chunk for chunk in chunks if chunk.segment == number])
            assert length == pytest.approx(len(text) * 0.02, abs=0.002)

    play(name, scenario)


@pytest.mark.parametrize(("name", "connections"), [("cartesia", 1), ("deepgram", 2), ("rime", 2)])
def test_a_cancelled_reply_keeps_its_connection_only_where_audio_is_labelled(name: str, connections: int) -> None:
    async def scenario(voice: Voice, service: Service) -> None:
        for turn in range(3):
            await say(voice, turn, "Spoken to the end. ")
        utterance = voice.open(7)
        await utterance.push("Interrupted after its first chunk of sound. ")
        async for _ in utterance:
            await utterance.cancel()
        await utterance.close()
        assert seconds(await say(voice, 8, "Yes. ")) == pytest.approx(5 * 0.02, abs=0.002)
        assert service.connections == connections

    play(name, scenario)


def test_cartesia_gets_the_text_verbatim_and_whole_words() -> None:
    tokens = ("One", " mo", "ment", ",", " I", " will", " look", ".")

    async def scenario(voice: Voice, service: Service) -> None:
        await say(voice, 1, *tokens)
        assert "".join(service.spoken) == "".join(tokens)
        assert "One moment, " in "".join(service.spoken[:2]) + " "
        assert {message["max_buffer_delay_ms"] for message in service.messages} == {400}
        assert [message["continue"] for message in service.messages][-1] is False

    play("cartesia", scenario)


def test_cartesia_goes_on_in_a_new_context_when_one_expired() -> None:
    dialect = CartesiaDialect(CartesiaOptions(api_key=SecretStr(KEY), voice_id="a-voice"))
    first = json.loads(dialect.push(0, "Let me see. ")[0])
    data = base64.b64encode(bytes(400)).decode()
    assert dialect.receive(json.dumps({"type": "chunk", "data": data, "context_id": first["context_id"]}))
    assert dialect.receive(json.dumps({"type": "done", "context_id": first["context_id"]})) == []
    second = json.loads(dialect.push(1, "There it is. ")[0])
    assert second["context_id"] != first["context_id"]
    stale = {"type": "error", "error_code": "x", "context_id": first["context_id"]}
    assert dialect.receive(json.dumps(stale)) == []


def test_deepgram_stays_under_its_limit_of_flushes() -> None:
    async def scenario(voice: Voice, service: Service) -> None:
        texts = [f"Sentence number {n}. " for n in range(60)]
        chunks = await say(voice, 1, *texts)
        flushes = [message for message in service.messages if message["type"] == "Flush"]
        assert len(flushes) <= 20
        assert seconds(chunks) == pytest.approx(sum(map(len, texts)) * 0.02, rel=0.05)

    play("deepgram", scenario)


def test_openai_sends_what_the_settings_say() -> None:
    async def scenario(voice: Voice, service: Service) -> None:
        await say(voice, 1, "Hello there. ", "Goodbye. ")
        assert service.spoken == ["Hello there. ", "Goodbye. "]
        assert service.messages[0] == {
            "model": "gpt-4o-mini-tts",
            "voice": "nova",
            "input": "Hello there. ",
            "response_format": "pcm",
            "instructions": "Calm.",
        }
        assert service.connections == 1

    play("openai", scenario, voice="nova", instructions="Calm.")
