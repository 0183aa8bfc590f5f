"""pipecat's own WebSocket pipeline behind a Twilio media stream, with a scripted model and a tone for a voice.

    python pipecat_server.py [PORT]

It does what the service does in a load test with its scripted engine and its tone voice: the same words at the same times,
60 ms of sound a character, mu-law in frames of 20 ms. Runs in an environment of its own (requirements.txt); prints its
address once it listens. The caller's words come beside the socket, as they do from a platform's recogniser.
"""

import asyncio
import json
import random
import re
import socket
import sys
from collections.abc import AsyncGenerator

import numpy as np
import uvicorn
from fastapi import FastAPI, Request, Response, WebSocket
from loguru import logger
from pipecat.frames.frames import (
    Frame,
    InterruptionFrame,
    LLMFullResponseEndFrame,
    LLMFullResponseStartFrame,
    LLMTextFrame,
    TranscriptionFrame,
    TTSAudioRawFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.serializers.twilio import TwilioFrameSerializer
from pipecat.services.settings import TTSSettings
from pipecat.services.tts_service import TTSService
from pipecat.transports.websocket.fastapi import FastAPIWebsocketParams, FastAPIWebsocketTransport
from pipecat.workers.runner import WorkerRunner
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

REPLY = "Sure, I can help you with that. Could you tell me a little more about what you need today?"
FIRST_TOKEN_S, STEP_S, BURSTS = 0.08, 0.03, (1, 2, 2, 3, 4)
RATE_HZ = 8000
SECONDS_PER_CHARACTER = 0.06
TONE = (8000 * np.sin(2 * np.pi * 440 * np.arange(RATE_HZ * 60) / RATE_HZ)).astype(np.int16).tobytes()


class ScriptedModel(FrameProcessor):
    """Answers every transcript with the same words, in bursts as speculation yields them."""

    def __init__(self) -> None:
        super().__init__()
        self._reply: asyncio.Task[None] | None = None

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if isinstance(frame, TranscriptionFrame):
            await self._stop()
            self._reply = self.create_task(self._answer())
            return
        if isinstance(frame, InterruptionFrame):
            await self._stop()
        await self.push_frame(frame, direction)

    async def _stop(self) -> None:
        if self._reply is not None:
            await self.cancel_task(self._reply)
            self._reply = None

    async def _answer(self) -> None:
        draw = random.Random(0)
        loop = asyncio.get_running_loop()
        words = re.findall(r" ?[A-Za-z']+|.", REPLY)  # as the scripted engine cuts them
        await self.push_frame(LLMFullResponseStartFrame())
        due_s = loop.time() + FIRST_TOKEN_S
        while words:
            await asyncio.sleep(due_s - loop.time())
            for _ in range(min(draw.choice(BURSTS), len(words))):
                await self.push_frame(LLMTextFrame(words.pop(0)))
            due_s += STEP_S
        await self.push_frame(LLMFullResponseEndFrame())


class ToneVoice(TTSService):
    """A tone as long as the text, at once."""

    def __init__(self) -> None:
        settings = TTSSettings(model="tone", voice="tone", language=None)
        super().__init__(
            sample_rate=RATE_HZ,
            push_start_frame=True,
            push_stop_frames=True,
            stop_frame_timeout_s=0.5,
            settings=settings,
        )

    async def run_tts(self, text: str, context_id: str) -> AsyncGenerator[Frame | None, None]:
        length = 2 * round(len(text) * SECONDS_PER_CHARACTER * RATE_HZ)
        piece = 2 * RATE_HZ // 10
        for start in range(0, length, piece):
            yield TTSAudioRawFrame(TONE[start : min(start + piece, length)], RATE_HZ, 1, context_id=context_id)


def transport_of(websocket: WebSocket, stream_sid: str) -> FastAPIWebsocketTransport:
    """In frames of 20 ms, and silent between replies, as the service is."""
    serializer = TwilioFrameSerializer(stream_sid, params=TwilioFrameSerializer.InputParams(auto_hang_up=False))
    params = FastAPIWebsocketParams(
        audio_in_enabled=False,
        audio_out_enabled=True,
        audio_out_10ms_chunks=2,
        audio_out_auto_silence=False,
        serializer=serializer,
    )
    return FastAPIWebsocketTransport(websocket, params)


app = FastAPI()
calls: dict[str, PipelineWorker] = {}


@app.websocket("/v1/media/twilio")
async def call(websocket: WebSocket) -> None:
    """One call: pipecat wants the first two messages read for it."""
    await websocket.accept()
    await websocket.receive_text()
    start = json.loads(await websocket.receive_text())["start"]
    transport = transport_of(websocket, start["streamSid"])
    pipeline = Pipeline([transport.input(), ScriptedModel(), ToneVoice(), transport.output()])
    rates = PipelineParams(audio_in_sample_rate=RATE_HZ, audio_out_sample_rate=RATE_HZ)
    worker = PipelineWorker(pipeline, params=rates, cancel_on_idle_timeout=False, enable_rtvi=False)

    @transport.event_handler("on_client_disconnected")
    async def left(_transport: object, _websocket: object) -> None:
        await worker.cancel()

    calls[start["callSid"]] = worker
    try:
        runner = WorkerRunner(handle_sigint=False)
        await runner.add_workers(worker)
        await runner.run()
    finally:
        calls.pop(start["callSid"], None)


@app.post("/v1/calls/{call_id}/transcript")
async def transcript(call_id: str, request: Request) -> Response:
    """The caller's words; final ones interrupt what is still being said."""
    said = await request.json()
    worker = calls.get(call_id)
    if worker is None:
        return Response(status_code=404)
    if said.get("final", True):
        await worker.queue_frame(InterruptionFrame())
        await worker.queue_frame(TranscriptionFrame(said["text"], "caller", ""))
    return Response(status_code=204)


@app.get("/metrics")
async def metrics() -> Response:
    """The CPU seconds of this process."""
    return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)


def main() -> None:
    """Listen, say so, serve."""
    logger.remove()
    logger.add(sys.stderr, level="ERROR")
    with socket.create_server(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 0), backlog=2048) as listener:
        print(f"pipecat is ready: http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
        config = uvicorn.Config(app, log_config=None, access_log=False, loop="uvloop", ws_per_message_deflate=False)
        uvicorn.Server(config).run([listener])


if __name__ == "__main__":
    main()
