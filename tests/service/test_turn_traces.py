"""One span per turn with its stages, whatever ends the turn; nothing said in it; nothing at all unless asked for."""

import asyncio
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from websockets.asyncio.client import connect

from engine.fake import Script, ScriptedEngine
from service.reply import Reply
from service.settings import SettingsError, TracesOptions, load_settings
from service.traces import Traces, make_traces
from tests.service.native_bridge import NativeBridge
from tests.service.running import running_service
from tests.service.virtual_call import REPLY, VirtualCall, virtual_call
from tests.virtual_time import run_virtual

NUMBER = "+49 30 901820"
QUESTION = f"My number is {NUMBER}, when do you open?"
Spans = tuple[ReadableSpan, ...]


def traced(name: str, then: Any, script: Script | None = None, **rest: Any) -> Spans:
    """The spans of a call that asks one thing and goes on with `then`."""
    exporter = InMemorySpanExporter()

    async def main() -> None:
        traces = Traces(SimpleSpanProcessor(exporter))
        async with virtual_call(name, REPLY, script or Script(first_token_s=0.1), traces=traces, **rest) as call:
            await call.say(QUESTION)
            await then(call)
        traces.close()

    run_virtual(main())
    spans: Spans = exporter.get_finished_spans()
    return spans


def turns(spans: Spans) -> Spans:
    return tuple(span for span in spans if span.name == "turn")


async def to_the_end(call: VirtualCall) -> None:
    await asyncio.sleep(20)


async def interrupted(call: VirtualCall) -> None:
    await call.until_units(3)
    call.send(call.bridge.interrupt(call.now()))
    await asyncio.sleep(1)


async def hung_up(call: VirtualCall) -> None:
    await call.until_units(3)


def test_a_turn_with_audio_has_its_stages_as_children_one_after_the_other() -> None:
    spans = traced("native-audio", to_the_end)
    (turn,) = turns(spans)
    stages = [span for span in spans if span is not turn]
    assert [span.name for span in stages] == ["prefill", "segment", "synthesis", "framing"]
    assert {span.parent.span_id for span in stages if span.parent} == {turn.context.span_id}
    assert stages[0].start_time == turn.start_time
    for before, after in zip(stages, stages[1:], strict=False):
        assert before.end_time == after.start_time
    assert stages[-1].end_time <= turn.end_time
    assert (stages[0].end_time - stages[0].start_time) / 1e9 == pytest.approx(0.1, abs=0.01)
    assert turn.attributes["voicepace.outcome"] == "stop"
    assert turn.attributes["voicepace.tokens"] == turn.attributes["voicepace.steps"] > 5
    assert [event.name for event in turn.events] == ["first token"]


def test_a_text_turn_has_the_stages_it_reached() -> None:
    spans = traced("native", to_the_end)
    assert sorted(span.name for span in spans) == ["prefill", "turn"]


@pytest.mark.parametrize(("then", "outcome"), [(interrupted, "interrupted"), (hung_up, "interrupted")])
def test_a_turn_that_is_cut_has_a_span_too(then: Any, outcome: str) -> None:
    (turn,) = turns(traced("native-audio", then))
    assert turn.attributes["voicepace.outcome"] == outcome


def test_a_turn_whose_engine_died_has_a_span_too() -> None:
    (turn,) = turns(traced("native", to_the_end, Script(first_token_s=0.1, die_after_bursts=3)))
    assert turn.attributes["voicepace.outcome"] == "error"


def test_every_turn_of_a_call_has_one() -> None:
    async def again(call: VirtualCall) -> None:
        await asyncio.sleep(20)
        await call.say("And on Sunday?")
        await asyncio.sleep(20)

    found = turns(traced("native", again, bridge=NativeBridge(greeting="Good morning!")))
    assert [turn.attributes["voicepace.turn_id"] for turn in found] == [0, 1, 2]


def test_nothing_said_no_number_and_no_id_of_a_call_is_in_a_span() -> None:
    spans = traced("native-audio", to_the_end, bridge=NativeBridge(call_id="49301820"))
    text = " ".join(
        f"{span.name} {dict(span.attributes or {})} {[event.name for event in span.events]}" for span in spans
    )
    assert "voicepace.outcome" in text
    for private in (*REPLY.split(), *QUESTION.split(), "49301820"):
        assert len(private) < 4 or private not in text


def test_the_time_in_the_engines_queue_is_a_stage_where_the_engine_says_it() -> None:
    reply = Reply(0, asked_at=1.0, queued_s=0.25, first_burst_at=1.5)
    assert list(reply.stages()) == [("queue", 1.0, 1.25), ("prefill", 1.25, 1.5)]


def test_without_the_setting_nothing_is_imported_or_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    make_traces(TracesOptions()).close()


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(SettingsError, match=r"traces\.endpoint: install the extra"):
        make_traces(TracesOptions(endpoint="http://collector:4318/v1/traces"))


@contextmanager
def collector() -> Iterator[tuple[str, list[bytes]]]:
    """What speaks OTLP over HTTP; yields its address and what it got."""
    got: list[bytes] = []

    class Collect(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Collect)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1/traces", got
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_collector_gets_the_spans_by_the_end_of_the_service() -> None:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    async def call(url: str) -> None:
        async with connect(f"{url}/v1/voice") as bridge:
            await bridge.send('{"type":"start"}')
            await bridge.send(json.dumps({"type": "user_text", "text": QUESTION}))
            while json.loads(await bridge.recv())["type"] != "turn_end":
                pass

    with collector() as (endpoint, got):
        settings = load_settings(
            {"scripted.enabled": "true", "traces.endpoint": endpoint, "voice.names": "[]"}, environ={}
        )
        with running_service(settings, ScriptedEngine(REPLY, Script(first_token_s=0.01, step_time_s=0.01))) as service:
            asyncio.run(call(service.ws))
    requests = [ExportTraceServiceRequest.FromString(body) for body in got]
    spans = [
        span
        for request in requests
        for one in request.resource_spans
        for scope in one.scope_spans
        for span in scope.spans
    ]
    assert sorted(span.name for span in spans) == ["prefill", "turn"]
    assert not any(word.encode() in body for body in got for word in QUESTION.split() if len(word) > 3)
