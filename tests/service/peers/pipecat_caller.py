"""A pipecat pipeline whose language model is this service. Runs in an environment of its own, not in ours.

    python pipecat_caller.py (stream | tool | interrupt) BASE_URL MODEL

The last line on standard output is JSON. `interrupt` prints a line once the pipeline has been interrupted, and stays
connected until a line comes on standard input.
"""

import asyncio
import json
import os
import sys
from typing import Any

from loguru import logger
from pipecat.adapters.llm.schemas.function_schema import FunctionSchema
from pipecat.adapters.llm.schemas.tools_schema import ToolsSchema
from pipecat.frames.frames import (
    CancelFrame,
    EndFrame,
    Frame,
    InterruptionFrame,
    LLMContextFrame,
    LLMFullResponseEndFrame,
    LLMTextFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import LLMContextAggregatorPair
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.services.llm_service import FunctionCallParams
from pipecat.services.openai.llm import OpenAILLMService
from pipecat.workers.runner import WorkerRunner

HOURS = FunctionSchema(
    name="opening_hours",
    description="Opening hours of one weekday.",
    properties={"day": {"type": "string", "enum": ["Monday", "Sunday"]}},
    required=["day"],
)
# As above, with the arguments held to their schema: a model this small would not keep to it by itself.
STRICT: Any = {
    "type": "function",
    "function": {
        "name": HOURS.name,
        "description": HOURS.description,
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": HOURS.properties,
            "required": HOURS.required,
            "additionalProperties": False,
        },
    },
}
CHOSEN: Any = {"type": "function", "function": {"name": "opening_hours"}}


class Collector(FrameProcessor):
    """Keeps the texts of the replies, one list a reply."""

    def __init__(self) -> None:
        super().__init__()
        self.replies: list[list[str]] = [[]]
        self.texts = asyncio.Event()
        self.ended = asyncio.Event()
        self.interrupted = asyncio.Event()

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if isinstance(frame, LLMTextFrame):
            self.replies[-1].append(frame.text)
            if len(self.replies[-1]) == 3:
                self.texts.set()
        elif isinstance(frame, LLMFullResponseEndFrame):
            if self.replies[-1]:
                self.ended.set()
            self.replies.append([])
        elif isinstance(frame, InterruptionFrame):
            self.interrupted.set()
        await self.push_frame(frame, direction)


def context(text: str, **rest: Any) -> LLMContext:
    return LLMContext(messages=[{"role": "user", "content": text}], **rest)


async def main(mode: str, base_url: str, model: str) -> None:
    most = {"stream": 24, "tool": 96, "interrupt": 400}[mode]
    extra = {"tools": [STRICT]} if mode == "tool" else {}
    settings = OpenAILLMService.Settings(model=model, temperature=0.0, max_tokens=most, extra=extra)
    llm = OpenAILLMService(api_key="none", base_url=base_url, settings=settings)
    collector = Collector()
    calls: list[Any] = []

    async def opening_hours(params: FunctionCallParams) -> None:
        calls.append(dict(params.arguments))
        params.context.set_tool_choice("none")
        await params.result_callback({"open": "07:00", "close": "18:00"})

    llm.register_function("opening_hours", opening_hours)
    asked = context("Tell me a long story about the sea and its ships.")
    if mode == "tool":
        asked = context("When do you open on Sunday?", tools=ToolsSchema(standard_tools=[HOURS]), tool_choice=CHOSEN)
    pair = LLMContextAggregatorPair(asked)
    worker = PipelineWorker(
        Pipeline([pair.user(), llm, collector, pair.assistant()]), cancel_on_idle_timeout=False, enable_rtvi=False
    )

    @worker.event_handler("on_pipeline_error")
    async def failed(_worker: Any, error: Any) -> None:
        print(error, file=sys.stderr, flush=True)
        os._exit(1)

    async def talk() -> None:
        await worker.queue_frame(LLMContextFrame(context=asked))
        if mode == "interrupt":
            await collector.texts.wait()
            await worker.queue_frame(InterruptionFrame())
            await collector.interrupted.wait()
            print(json.dumps({"texts": collector.replies[0]}), flush=True)
            await asyncio.to_thread(sys.stdin.readline)
            await worker.queue_frame(CancelFrame())
            return
        await collector.ended.wait()
        await worker.queue_frame(EndFrame())

    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(worker)
    await asyncio.wait_for(asyncio.gather(runner.run(), talk()), 90)
    replies = [reply for reply in collector.replies if reply]
    messages = [message for message in asked.get_messages() if isinstance(message, dict)]
    print(json.dumps({"replies": replies, "calls": calls, "roles": [message["role"] for message in messages]}))


if __name__ == "__main__":
    logger.remove()
    logger.add(sys.stderr, level="WARNING")
    asyncio.run(main(*sys.argv[1:4]))
