"""The endpoints over a real socket, with the real engine and the official client."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx
import openai
import pytest
import requests
from fastapi import FastAPI

from engine.api import EngineDead
from engine.vllm_engine import VllmEngine
from service import openai_api
from service.metrics import Metrics
from service.server import listen, web_server
from service.settings import Settings, load_settings
from tests.service.openai_bodies import bodies

pytestmark = [pytest.mark.engine, pytest.mark.anyio]

NAMES = ("demo", "demo-alias")
COUNTING = "one two three four one two three four one two three four one two"
"""A text that n-gram drafting continues in bursts."""


class Switchable:
    """The real engine behind a switch, to see what the endpoints say while there is none."""

    def __init__(self, engine: VllmEngine) -> None:
        self._engine = engine
        self.started = True
        self.dead = False
        self.replacement: Any = None

    @property
    def client(self) -> Any:
        if not self.started:
            raise EngineDead("the engine is not running")
        return self.replacement or self._engine.client

    @property
    def step_log(self) -> Any:
        return self._engine.step_log


class Replacement:
    """Another client object for the same engine, as after a restart."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.generated = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def generate(self, *args: Any, **kwargs: Any) -> Any:
        self.generated += 1
        return self._client.generate(*args, **kwargs)


@dataclass
class Server:
    """The endpoints on a socket."""

    url: str
    engine: VllmEngine
    switch: Switchable
    metrics: Metrics

    def client(self) -> openai.AsyncOpenAI:
        return openai.AsyncOpenAI(base_url=f"{self.url}/v1", api_key="none", max_retries=0, timeout=120)

    async def post(self, path: str, body: Any) -> httpx.Response:
        async with httpx.AsyncClient(timeout=120) as client:
            return await client.post(self.url + path, content=json.dumps(body), headers=JSON)

    def sample(self, name: str, dialect: str, surface: str = "openai", **labels: str) -> float:
        labels |= {"surface": surface, "dialect": dialect, "model": "demo"}
        return self.metrics.registry.get_sample_value(f"voicepace_{name}", labels) or 0.0


JSON = {"content-type": "application/json"}


def settings(**openai_options: str) -> Settings:
    flags = {"engine.served_model_name": json.dumps(NAMES)}
    flags |= {f"openai.{key}": value for key, value in openai_options.items()}
    return load_settings(flags, environ={})


async def _serve(engine: VllmEngine, options: Settings) -> AsyncIterator[Server]:
    listener = listen("127.0.0.1", 0)
    switch = Switchable(engine)
    app, metrics = FastAPI(), Metrics("demo")
    await openai_api.mount(app, switch, options, metrics).prepare()
    server = web_server(app, options)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(server.serve([listener]))
        yield Server(f"http://127.0.0.1:{listener.getsockname()[1]}", engine, switch, metrics)
        server.should_exit = True
    listener.close()


@pytest.fixture(scope="module")
async def server(real_engine: VllmEngine) -> AsyncIterator[Server]:
    async for running in _serve(real_engine, settings(tool_parser="hermes")):
        yield running


def stream_lines(url: str, prompt: str, **options: Any) -> list[dict[str, Any]]:
    """What a plain script sees: the parsed `data:` lines but the last, `[DONE]`."""
    body = {"model": "demo", "prompt": prompt, "max_tokens": 128, "temperature": 0, "stream": True, **options}
    with requests.post(f"{url}/v1/completions", json=body, stream=True, timeout=120) as response:
        assert response.status_code == 200
        lines = [line[6:] for line in response.iter_lines() if line.startswith(b"data: ")]
    assert lines.pop() == b"[DONE]"
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("prompt", [COUNTING, "The opening hours of the museum are"])
async def test_counting_lines_counts_tokens(server: Server, prompt: str) -> None:
    usage = {"include_usage": True}
    lines = await asyncio.to_thread(stream_lines, server.url, prompt, stream_options=usage)
    assert lines[-1]["choices"] == []
    tokens = lines[-1]["usage"]["completion_tokens"]
    assert abs(len(lines) - (tokens + 1)) <= 1
    assert all("usage" not in line or line["usage"] is None for line in lines[:-1])


@pytest.mark.parametrize("options", [{}, {"stream_options": {}}, {"stream_options": {"include_usage": False}}])
async def test_no_usage_unless_asked_for(server: Server, options: dict[str, Any]) -> None:
    lines = await asyncio.to_thread(stream_lines, server.url, "Hello", max_tokens=3, **options)
    assert all(line["choices"] and not line.get("usage") for line in lines)


async def test_both_names_are_served(server: Server) -> None:
    async with server.client() as client:
        assert [model.id async for model in client.models.list()] == list(NAMES)
        for name in NAMES:
            reply = await client.completions.create(model=name, prompt="Hello", max_tokens=2, temperature=0)
            assert reply.usage is not None
            assert reply.usage.completion_tokens == 2


async def test_a_stream_says_what_the_whole_reply_says(server: Server) -> None:
    """Text, log-probabilities and offsets, burst by burst, against the reply in one piece."""
    async with server.client() as client:
        asked: dict[str, Any] = {
            "model": "demo",
            "prompt": COUNTING,
            "max_tokens": 32,
            "temperature": 0,
            "logprobs": 2,
        }
        whole = (await client.completions.create(**asked)).choices[0]
        chunks = [chunk.choices[0] async for chunk in await client.completions.create(**asked, stream=True)]
    assert "".join(chunk.text for chunk in chunks) == whole.text
    assert whole.logprobs is not None
    assert whole.logprobs.token_logprobs is not None
    logprobs = [chunk.logprobs for chunk in chunks if chunk.logprobs]
    assert [token for part in logprobs for token in part.tokens or ()] == whole.logprobs.tokens
    assert [at for part in logprobs for at in part.text_offset or ()] == whole.logprobs.text_offset
    values = [value for part in logprobs for value in part.token_logprobs or ()]
    assert values == pytest.approx(whole.logprobs.token_logprobs, abs=1e-3)
    assert [chunk.finish_reason for chunk in chunks] == [None] * (len(chunks) - 1) + [whole.finish_reason]


async def test_a_stop_string_is_never_seen_and_no_chunk_ends_inside_a_token(server: Server) -> None:
    lines = await asyncio.to_thread(stream_lines, server.url, COUNTING, stop=["four one two"])
    texts = [line["choices"][0]["text"] for line in lines]
    whole = "".join(texts)
    assert lines[-1]["choices"][0]["finish_reason"] == "stop"
    assert "four" not in whole.split("three")[-1]
    free = "".join(line["choices"][0]["text"] for line in await asyncio.to_thread(stream_lines, server.url, COUNTING))
    assert free.startswith(whole)
    assert free[len(whole) :].startswith("four one two")
    words = {word for text in texts[:-1] for word in text.split()}
    assert words <= set(free.split()), "a piece of a word left by itself"


@pytest.mark.parametrize("almost_greedy", [{"temperature": 1, "top_k": 1}, {"temperature": 0.01}, {"top_p": 1e-6}])
async def test_sampling_limits_hold_for_drafted_tokens_too(server: Server, almost_greedy: dict[str, Any]) -> None:
    """With these only the likeliest token is left, so sampling says what greedy decoding says."""
    body = {"prompt": COUNTING, "max_tokens": 32, "temperature": 1}
    greedy = await server.post("/v1/completions", body | {"temperature": 0})
    sampled = await server.post("/v1/completions", body | almost_greedy)
    assert sampled.json()["choices"][0]["text"] == greedy.json()["choices"][0]["text"]


async def test_seeds_repeat_and_choices_differ(server: Server) -> None:
    async with server.client() as client:
        asked: dict[str, Any] = {"model": "demo", "prompt": "My name is", "max_tokens": 12, "temperature": 1, "n": 2}
        first = await client.completions.create(**asked, seed=7)
        again = await client.completions.create(**asked, seed=7)
        other = await client.completions.create(**asked, seed=8)
        streamed = {0: "", 1: ""}
        async for chunk in await client.completions.create(**asked, seed=7, stream=True):
            for choice in chunk.choices:
                streamed[choice.index] += choice.text
    texts = [choice.text for choice in first.choices]
    assert texts == [choice.text for choice in again.choices]
    assert texts != [choice.text for choice in other.choices]
    assert texts[0] != texts[1]
    assert list(streamed.values()) == texts
    assert first.usage is not None
    assert first.usage.completion_tokens == 24


async def test_chat_with_and_without_a_stream(server: Server) -> None:
    async with server.client() as client:
        messages: Any = [{"role": "user", "content": "Say hello."}]
        asked: dict[str, Any] = {"model": "demo", "messages": messages, "max_tokens": 16, "temperature": 0}
        whole = await client.chat.completions.create(**asked, logprobs=True, top_logprobs=2)
        usage = {"include_usage": True}
        chunks = [
            chunk async for chunk in await client.chat.completions.create(**asked, stream=True, stream_options=usage)
        ]
    content = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert content == whole.choices[0].message.content
    assert chunks[-1].choices == []
    assert whole.usage is not None
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert whole.choices[0].logprobs is not None


@pytest.mark.parametrize("choice", ["auto", "required", "none"])
async def test_tools_do_not_upset_a_model_that_knows_none(server: Server, choice: str) -> None:
    tool: Any = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
    messages: Any = [{"role": "user", "content": "What is the weather?"}]
    async with server.client() as client:
        asked: dict[str, Any] = {"model": "demo", "messages": messages, "max_tokens": 24, "temperature": 0}
        asked |= {"tools": [tool], "tool_choice": choice}
        whole = await client.chat.completions.create(**asked)
        chunks = [chunk async for chunk in await client.chat.completions.create(**asked, stream=True)]
    message = whole.choices[0].message
    assert message.content or message.tool_calls
    assert chunks[-1].choices[0].finish_reason is not None


@pytest.mark.parametrize(
    ("body", "status", "parameter"),
    [
        ({"model": "nope"}, 404, "model"),
        ({"min_p": 0.3}, 400, "min_p"),
        ({"logit_bias": {"5": 3}}, 400, "logit_bias"),
        ({"n": 1000}, 400, "n"),
        ({"temperature": -1}, 400, "temperature"),
        ({"prompt": [10**6]}, 400, None),
        ({"prompt": [5] * 5000}, 400, None),
        ({"pacing": "yes"}, 400, "pacing"),
        ({"vllm_xargs": {"kv_transfer_params": "x"}}, 400, "vllm_xargs.kv_transfer_params"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_what_cannot_be_served_is_refused_by_name(
    server: Server, body: dict[str, Any], status: int, parameter: str | None, stream: bool
) -> None:
    response = await server.post("/v1/completions", {"model": "demo", "prompt": "Hello", "stream": stream, **body})
    assert response.status_code == status
    error = response.json()["error"]
    assert error["message"]
    if parameter is not None:
        assert error["param"] == parameter


@pytest.mark.parametrize("body", [b"{bad", b"", b"[]", b'{"top_p": NaN}', b"[" * 100_000, b"\xff\xfe"])
async def test_malformed_json_is_refused(server: Server, body: bytes) -> None:
    async with httpx.AsyncClient() as client:
        response = await client.post(f"{server.url}/v1/completions", content=body, headers=JSON)
    assert response.status_code == 400
    assert response.json()["error"]["message"]


async def test_a_body_too_large_is_refused(server: Server) -> None:
    async with httpx.AsyncClient(timeout=60) as client:
        body = b" " * (openai_api.MAX_BODY_BYTES + 1)
        response = await client.post(f"{server.url}/v1/completions", content=body, headers=JSON)
    assert response.status_code == 413


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("pacing", [False, True])
async def test_a_disconnect_aborts(server: Server, stream: bool, pacing: bool) -> None:
    body = {"model": "demo", "prompt": "Once upon a time", "max_tokens": 1500, "ignore_eos": True, "stream": stream}
    body |= {"pacing": pacing and stream}
    async with httpx.AsyncClient(timeout=60) as client:
        asking = client.build_request("POST", f"{server.url}/v1/completions", json=body)
        async with asyncio.TaskGroup() as tasks:
            sending = tasks.create_task(client.send(asking, stream=True))
            async with asyncio.timeout(60):
                while not server.engine.running:
                    await asyncio.sleep(0.01)
            if stream:
                response = await sending
                assert await anext(response.aiter_lines())
                assert server.engine.running == 1
                await response.aclose()
            else:
                sending.cancel()
    async with asyncio.timeout(20):
        while server.engine.running:
            await asyncio.sleep(0.01)
    assert len(server.engine.step_log) == 0


async def test_every_step_is_recorded_whether_or_not_the_client_streams(server: Server) -> None:
    names = ("acceptance_length_sum", "acceptance_length_count", "step_gap_seconds_count", "engine_tit_seconds_count")

    def read() -> list[float]:
        return [server.sample(name, "completions") for name in names]

    found = []
    for stream in (False, True):
        before, accepted = read(), server.sample("accepted_total", "completions", depth="1")
        lines: dict[str, Any] = {"prompt": COUNTING, "max_tokens": 40, "temperature": 0, "stream": stream}
        response = await server.post("/v1/completions", lines)
        assert response.status_code == 200
        tokens, steps, gaps, tit = (after - was for after, was in zip(read(), before, strict=True))
        assert (tokens, gaps) == (40, steps - 1)
        assert steps < 40, "n-gram drafts were accepted"
        assert steps - 1 <= tit <= 39
        assert server.sample("accepted_total", "completions", depth="1") > accepted
        found.append((steps, tit))
    assert found[0] == found[1]


async def test_delivered_gaps_of_unpaced_streams_have_no_objective(server: Server) -> None:
    before = server.sample("delivered_gap_seconds_count", "completions")
    lines = await asyncio.to_thread(stream_lines, server.url, COUNTING, max_tokens=20)
    spoken = sum(bool(line["choices"][0]["text"]) for line in lines)
    assert server.sample("delivered_gap_seconds_count", "completions") - before == spoken - 1
    assert server.sample("slo_violations_total", "completions") == 0


async def test_a_paced_stream_brings_the_same_text(server: Server) -> None:
    ttfts = server.sample("ttft_seconds_count", "chat", "openai_paced")
    gaps = server.sample("delivered_gap_seconds_count", "chat", "openai_paced")
    async with server.client() as client:
        messages: Any = [{"role": "user", "content": f"Repeat: {COUNTING}"}]
        asked: dict[str, Any] = {"model": "demo", "messages": messages, "max_tokens": 40, "temperature": 0}
        whole = await client.chat.completions.create(**asked)
        stream = await client.chat.completions.create(**asked, stream=True, extra_body={"pacing": True})
        texts = [chunk.choices[0].delta.content or "" async for chunk in stream]
    assert "".join(texts) == whole.choices[0].message.content
    assert server.sample("ttft_seconds_count", "chat", "openai_paced") - ttfts == 1
    spoken = sum(bool(text) for text in texts)
    assert server.sample("delivered_gap_seconds_count", "chat", "openai_paced") - gaps == spoken - 1


async def test_bursts_leave_whole_where_the_settings_say_so(real_engine: VllmEngine) -> None:
    async for server in _serve(real_engine, settings(stream_unit="burst")):
        lines = await asyncio.to_thread(stream_lines, server.url, COUNTING, max_tokens=40)
        steps = server.sample("acceptance_length_count", "completions")
        assert abs(len(lines) - steps) <= 1
        assert steps < 40


async def test_without_an_engine_the_answer_is_503_and_a_new_one_is_taken_up(server: Server) -> None:
    body = {"model": "demo", "prompt": "Hello", "max_tokens": 2}
    switch = server.switch
    for attribute, value in (("started", False), ("dead", True)):
        setattr(switch, attribute, value)
        response = await server.post("/v1/completions", body)
        assert response.status_code == 503
        assert response.json()["error"]["type"] == "ServiceUnavailableError"
        setattr(switch, attribute, not value)
    switch.replacement = Replacement(server.engine.client)
    try:
        assert (await server.post("/v1/completions", body)).status_code == 200
        assert switch.replacement.generated == 1
    finally:
        switch.replacement = None
    assert (await server.post("/v1/completions", body)).status_code == 200


async def _survives(server: Server, seed: int, count: int) -> None:
    for path, body in bodies(seed, count):
        response = await server.post(path, body)
        assert response.status_code in (200, 400, 404, 413, 500, 501), (path, body)
        assert not server.engine.dead, (path, body)
    assert server.engine.running == 0
    assert (await server.post("/v1/completions", {"prompt": "Hello", "max_tokens": 2})).status_code == 200


async def test_no_body_of_a_small_sample_ends_the_engine(server: Server) -> None:
    await _survives(server, seed=1, count=40)


@pytest.mark.prove
@pytest.mark.timeout(1800)
async def test_no_body_ends_the_engine(server: Server) -> None:
    await _survives(server, seed=2, count=500)
