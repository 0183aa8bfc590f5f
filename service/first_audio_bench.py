"""`voicepace bench firstaudio`: from the caller's words to the first audio frame, by stage, on the real engine and voice.

Three ways of answering the same questions, in turn, one at a time: `early` cuts the first segment early, as the service
does; `sentence` waits for whole sentences, as is usual elsewhere; `silent` has no voice at all and shows what synthesis
costs the engine. Every reply is played to its end on its real schedule, so that underruns count.
"""

import argparse
import asyncio
import json
import statistics
import sys
from collections.abc import Sequence
from typing import Any

from engine.api import Engine, EngineError, GenerateRequest, Sampling
from service.conversation import Conversation
from service.interpreter import settle_interpreter
from service.metrics import Metrics
from service.normalising import make_normaliser
from service.protocols.events import AudioFormat, Command
from service.reply import Reply, ReplyToken
from service.server import make_engine
from service.settings import Settings, SettingsError, load_settings
from service.speech import SentFrame, Speech
from service.turn import Turn
from tts_adapter.options import SegmentOptions, SpeechOptions
from tts_adapter.voice import Voice, VoiceError
from tts_adapter.voices.catalog import make_voice

WAYS = ("early", "sentence", "silent")
WHOLE_SENTENCES = SegmentOptions(
    first_min_words=50, first_max_words=100, first_hold_ms=10_000, max_hold_ms=60_000, max_characters=2000
)
QUESTIONS = (
    "What are your opening hours?",
    "I would like to book a table for two tomorrow evening.",
    "My order has not arrived yet, what should I do?",
    "Can you tell me how to reset my password?",
    "How much does the monthly plan cost?",
    "Where can I park near your shop?",
    "Do you deliver on Sundays?",
    "I need to change my appointment to Friday.",
    "What is your return policy?",
    "My internet is very slow today, can you help?",
    "Is breakfast included in the price of the room?",
    "How do I cancel my subscription?",
    "Can I speak to someone about an invoice?",
    "What documents do I need for the application?",
    "How long does the repair usually take?",
    "Do you have this shirt in a larger size?",
    "What should I bring to my first visit?",
    "Which bus goes to the airport?",
    "Can you explain how the warranty works?",
    "Thank you, what happens next?",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """How many turns, in which format."""
    parser.add_argument("--turns", type=int, default=len(QUESTIONS), help="replies in each way")
    parser.add_argument("--rate", type=int, default=8000, help="sample rate of the call (Hz)")
    parser.add_argument("--speculation", default="none", help="as engine.speculation")
    parser.add_argument(
        "--ways", nargs="+", choices=WAYS, default=WAYS, metavar="WAY", help="of %(choices)s (default: all)"
    )
    parser.add_argument("--json", action="store_true", help="end with one JSON document")


def run(arguments: argparse.Namespace) -> int:
    """Print stages and underruns by way; 1 where engine or voice cannot start."""
    try:
        settings = load_settings({"engine.speculation": arguments.speculation})
        results = asyncio.run(_bench(settings, arguments.turns, AudioFormat("pcm16", arguments.rate), arguments.ways))
    except (SettingsError, EngineError, VoiceError) as error:
        print(f"voicepace: {error}", file=sys.stderr)
        return 1
    for way, figures in results.items():
        print(f"{way:9}" + "  ".join(f"{name} {value:.4g}" for name, value in figures.items()))
    if arguments.json:
        print(json.dumps({"speculation": arguments.speculation, "turns": arguments.turns, "ways": results}))
    return 0


async def _bench(
    settings: Settings, turns: int, audio: AudioFormat, ways: Sequence[str]
) -> dict[str, dict[str, float]]:
    engine, voice = make_engine(settings), make_voice(settings.voice)
    if voice is None:
        raise VoiceError("voice.names: this benchmark needs a voice")
    try:
        # As the service does before it takes a call.
        make_normaliser(settings)
        await engine.start()
        await voice.start()
        settle_interpreter()
        runs: dict[str, list[_Run]] = {way: [] for way in ways}
        for number in range(turns):
            # Forwards and backwards, so that a drift of the machine's speed falls on all ways alike.
            for way in ways if number % 2 else reversed(ways):
                runs[way].append(await _Run(settings, engine, voice, audio, way, number).run())
            print(f"{number + 1} of {turns} turns", file=sys.stderr, flush=True)
        return {way: _figures(done) for way, done in runs.items()}
    finally:
        await engine.stop()
        await voice.stop()


class _Run:
    """One reply, and what is measured on it."""

    def __init__(
        self, settings: Settings, engine: Engine, voice: Voice, audio: AudioFormat, way: str, number: int
    ) -> None:
        loop = asyncio.get_running_loop()
        self.reply = Reply(0, loop.time())
        metrics = Metrics("bench")
        self._registry = metrics.registry
        stream = metrics.stream("voice", "native")
        talk = settings.conversation
        prompt = Conversation(engine.tokenizer, talk.system_prompt, talk.max_history_tokens).ask(
            QUESTIONS[number % len(QUESTIONS)]
        )
        request = GenerateRequest(f"bench-{way}-{number}", prompt, Sampling(talk.max_reply_tokens, talk.temperature))
        speech = None
        if way != "silent":
            segments = WHOLE_SENTENCES if way == "sentence" else settings.speech.segments
            options: SpeechOptions = settings.speech.model_copy(update={"segments": segments})
            normaliser = make_normaliser(settings)
            speech = Speech(self.reply, voice, audio, options, normaliser, self._send, stream, self._frame_sent)
        self._turn = Turn(self.reply, engine.generate(request), self._send, stream, None, speech, self)

    async def run(self) -> "_Run":
        await self._turn.run()
        return self

    @property
    def underruns(self) -> float:
        labels = {"surface": "voice", "dialect": "native", "model": "bench"}
        return self._registry.get_sample_value("voicepace_tts_underrun_seconds_count", labels) or 0.0

    def stepped(self, gap_s: float | None, tokens: int) -> None:
        """Nothing beside what the reply itself notes."""

    def token_sent(self, token: ReplyToken, now: float) -> None:
        """No tokens leave."""

    def _frame_sent(self, frame: SentFrame, now: float) -> None:
        pass

    async def _send(self, command: Command) -> bool:
        return True


def _figures(runs: list[_Run]) -> dict[str, float]:
    """Medians by stage (ms), the 95th percentile of the whole, underruns, and the engine's step gap (ms)."""
    replies = [run.reply for run in runs]
    stages = [reply.first_audio_stages_s() for reply in replies if reply.first_frame_at is not None]
    figures: dict[str, Any] = {}
    for stage in stages[0] if stages else ():
        figures[f"{stage}_ms"] = 1e3 * statistics.median(found[stage] for found in stages)
    if len(stages) > 1:
        figures["total_p95_ms"] = 1e3 * statistics.quantiles([found["total"] for found in stages], n=20)[-1]
    if stages:
        figures["replies_with_underrun"] = sum(run.underruns > 0 for run in runs)
    steps = sum(reply.bursts - 1 for reply in replies)
    figures["step_gap_ms"] = 1e3 * sum(reply.step_time_s for reply in replies) / max(1, steps)
    figures["tokens_per_step"] = sum(len(reply.token_ids) for reply in replies) / sum(reply.bursts for reply in replies)
    return figures
