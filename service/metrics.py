"""Prometheus metrics under the project's fixed names. The only module that knows prometheus_client.

Three histograms describe token timing and are never mixed: the step gap (between two bursts of a request, by the engine
core's clock), the engine TIT (a burst of n tokens after a gap g counts as n samples of g / n), and the delivered gap
(between two non-empty tokens whose send has returned). 20 ms is an exact bucket edge of each.
"""

import math
from collections.abc import Callable, Iterable, Mapping

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from service.tree_metrics import TreeMetrics

TIT_BUCKETS_S = (
    0.001,
    0.0025,
    0.005,
    0.0075,
    0.010,
    0.0125,
    0.015,
    0.0175,
    0.020,
    0.0225,
    0.025,
    0.030,
    0.035,
    0.040,
    0.045,
) + (0.050, 0.060, 0.075, 0.100, 0.150, 0.250, 0.500, 1.0, 2.5)
LATENCY_BUCKETS_S = (0.005, 0.010, 0.020, 0.050, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)
BARGE_IN_BUCKETS_S = (0.001, 0.002, 0.005, 0.010, 0.020, 0.030, 0.050, 0.1, 0.2, 0.5, 1.0, 2.0)
LENGTH_BUCKETS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16)
FIRST_AUDIO_STAGES = ("queue", "prefill", "segment", "synthesis", "framing", "total")
REFUSALS = ("capacity", "objective", "draining", "not_ready", "auth", "origin")
MAX_DEPTH = 16
_LABELS = ("surface", "dialect", "model")


class Metrics:
    """Every metric of the service, in a registry of its own.

    Args:
        model: value of the `model` label.
        slo_s: objective for the delivered gap (seconds).
        registry: where the metrics live; a fresh one by default, so that tests do not share counts.
    """

    def __init__(self, model: str, slo_s: float = 0.020, registry: CollectorRegistry | None = None) -> None:
        self.model = model
        self.slo_s = slo_s
        self.registry = registry if registry is not None else CollectorRegistry()
        self._streams: dict[tuple[str, str], StreamMetrics] = {}
        self._token_timing()
        self._latency()
        self._calls()
        self._about()

    def _histogram(
        self, name: str, text: str, buckets: Iterable[float], labels: tuple[str, ...] = _LABELS
    ) -> Histogram:
        return Histogram(f"voicepace_{name}", text, labels, buckets=tuple(buckets), registry=self.registry)

    def _counter(self, name: str, text: str, labels: tuple[str, ...] = _LABELS) -> Counter:
        return Counter(f"voicepace_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, labels: tuple[str, ...] = ()) -> Gauge:
        return Gauge(f"voicepace_{name}", text, labels, registry=self.registry)

    def _token_timing(self) -> None:
        self.step_gap = self._histogram(
            "step_gap_seconds", "Time between two bursts of a request, by the engine core's clock.", TIT_BUCKETS_S
        )
        self.engine_tit = self._histogram(
            "engine_tit_seconds", "Step gap divided by the burst's tokens, one sample per token.", TIT_BUCKETS_S
        )
        self.delivered_gap = self._histogram(
            "delivered_gap_seconds", "Time between two non-empty tokens whose send has returned.", TIT_BUCKETS_S
        )
        self.starved = self._counter(
            "starved_seconds", "Sum of what delivered gaps exceed the objective by: what listeners hear as stutter."
        )
        self.slo_violations = self._counter("slo_violations", "Delivered gaps over the objective.")
        self.acceptance_length = self._histogram(
            "acceptance_length", "Tokens per engine step and request, bonus token included.", LENGTH_BUCKETS
        )
        self.accepted = self._counter(
            "accepted", "Steps whose accepted draft tokens reached this depth.", (*_LABELS, "depth")
        )

    def _latency(self) -> None:
        self.ttft = self._histogram(
            "ttft_seconds", "From the caller's words to the first non-empty token sent.", LATENCY_BUCKETS_S
        )
        self.first_audio = self._histogram(
            "first_audio_seconds",
            "From the caller's words to the first audio frame sent, by stage; stage total is the whole.",
            LATENCY_BUCKETS_S,
            (*_LABELS, "stage"),
        )
        self.barge_in_to_silence = self._histogram(
            "barge_in_to_silence_seconds",
            "From an interrupt to the moment after which nothing of the old turn leaves.",
            BARGE_IN_BUCKETS_S,
        )
        self.barge_in_to_abort = self._histogram(
            "barge_in_to_abort_seconds",
            "From an interrupt to the abort having been handed to the engine core; the core acts at its next step.",
            BARGE_IN_BUCKETS_S,
        )
        self.tts_underrun = self._histogram(
            "tts_underrun_seconds", "Length of each silence inside a reply because audio came late.", LATENCY_BUCKETS_S
        )

    def _calls(self) -> None:
        self.calls = Gauge("voicepace_calls", "Calls in progress.", ("surface", "dialect"), registry=self.registry)
        self.refused = self._counter("calls_refused", "Calls refused before the upgrade.", ("reason",))
        for reason in REFUSALS:
            self.refused.labels(reason)
        self.turns = self._counter("turns", "Replies that ended, by how.", (*_LABELS, "reason"))
        self.messages = self._counter(
            "messages_rejected",
            "Messages from bridges that were refused (bad) or unknown (ignored).",
            ("surface", "dialect", "kind"),
        )
        self.engine_up = Gauge(
            "voicepace_engine_up", "1 while the engine is loaded, warm and alive.", registry=self.registry
        )
        self.engine_up.set(0)
        self.calls_waiting = self._gauge("calls_waiting", "Calls that wait for a place before the upgrade.")
        self.calls_limit = self._gauge("calls_limit", "Calls at a time that are taken.")
        self.predicted_gap = self._gauge(
            "predicted_gap_seconds", "Delivered gap to expect with the calls in progress; NaN before the first reply."
        )
        self.predicted_gap.set(math.nan)
        self.engine_requests = self._gauge("engine_requests", "Replies in the engine now.")
        self.tasks = self._gauge("tasks", "Tasks of the service's event loop.")

    def _about(self) -> None:
        self.build_info = self._gauge(
            "build_info", "Always 1; its labels say what runs.", ("version", "profile", "speculation", "model")
        )
        self.objective_ratio = self._gauge(
            "objective_ratio", "Share of delivered gaps promised within the objective; absent: no promise.", ("model",)
        )
        self.speculation_fallback = self._gauge(
            "speculation_fallback",
            "1 while another speculation runs than was asked for, and why; absent where what was asked for runs.",
            ("asked", "instead", "reason"),
        )
        self.heads_acceptance_length = self._gauge(
            "heads_acceptance_length", "Mean acceptance length stored with the heads when trained.", ("model",)
        )

    def describe(
        self,
        *,
        version: str,
        profile: str,
        speculation: str,
        objective_ratio: float | None = None,
    ) -> None:
        """Say once what runs, and what alerts measure it by; None leaves that metric without a sample."""
        self.build_info.labels(version, profile, speculation, self.model).set(1)
        if objective_ratio is not None:
            self.objective_ratio.labels(self.model).set(objective_ratio)

    def heads_in_use(self, acceptance_length: float | None) -> None:
        """What the engine's heads reached when they were trained; None: it has none, or they do not say."""
        if acceptance_length is not None:
            self.heads_acceptance_length.labels(self.model).set(acceptance_length)

    def speculation_in_use(self, asked: str, instead: str | None, reason: str) -> None:
        """Say that another speculation runs than the one asked for; `instead` None: it is the one asked for."""
        self.speculation_fallback.clear()
        if instead is not None:
            self.speculation_fallback.labels(asked, instead, reason).set(1)

    def watch_trees(self, read: Callable[[], Mapping[str, float] | None]) -> None:
        """Read what trees give at each scrape; `read` gives None where the engine has none."""
        self.registry.register(TreeMetrics(self.model, read))

    def watch_load(self, limit: int, waiting: Callable[[], int], predicted_gap_s: Callable[[], float | None]) -> None:
        """Read the load at each scrape."""
        self.calls_limit.set(limit)
        self.calls_waiting.set_function(waiting)

        def gap_s() -> float:
            predicted_s = predicted_gap_s()
            return math.nan if predicted_s is None else predicted_s

        self.predicted_gap.set_function(gap_s)

    def watch_leftovers(self, tasks: Callable[[], int], engine_requests: Callable[[], int]) -> None:
        """Read at each scrape what every call must give back at its end."""
        self.tasks.set_function(tasks)
        self.engine_requests.set_function(engine_requests)

    def stream(self, surface: str, dialect: str) -> "StreamMetrics":
        """The metrics of one surface and dialect, labels bound once so that the hot path only observes."""
        if (surface, dialect) not in self._streams:
            self._streams[surface, dialect] = StreamMetrics(self, surface, dialect)
        return self._streams[surface, dialect]

    def exposition(self) -> bytes:
        """The scrape: our metrics, then what the engine registered with the client library's default registry."""
        return generate_latest(self.registry) + generate_latest(REGISTRY)


class StreamMetrics:
    """`Metrics` with `surface` and `dialect` filled in."""

    def __init__(self, metrics: Metrics, surface: str, dialect: str) -> None:
        labels = (surface, dialect, metrics.model)
        self._metrics = metrics
        self._labels = labels
        self._slo_s = metrics.slo_s
        self._step_gap = metrics.step_gap.labels(*labels)
        self._engine_tit = metrics.engine_tit.labels(*labels)
        self._delivered_gap = metrics.delivered_gap.labels(*labels)
        self._acceptance_length = metrics.acceptance_length.labels(*labels)
        self._accepted = [metrics.accepted.labels(*labels, str(depth)) for depth in range(1, MAX_DEPTH + 1)]
        self._starved = metrics.starved.labels(*labels)
        self._violations = metrics.slo_violations.labels(*labels)
        self._ttft = metrics.ttft.labels(*labels)
        self._silence = metrics.barge_in_to_silence.labels(*labels)
        self._abort = metrics.barge_in_to_abort.labels(*labels)
        self._underrun = metrics.tts_underrun.labels(*labels)
        self.calls = metrics.calls.labels(surface, dialect)
        self.bad_messages = metrics.messages.labels(surface, dialect, "bad")
        self.ignored_messages = metrics.messages.labels(surface, dialect, "ignored")

    def step(self, gap_s: float | None, tokens: int) -> None:
        """One engine step of one request that yielded `tokens` (>= 1); `gap_s` None for a request's first step."""
        self._acceptance_length.observe(tokens)
        for depth in range(min(tokens - 1, MAX_DEPTH)):
            self._accepted[depth].inc()
        if gap_s is None:
            return
        self._step_gap.observe(gap_s)
        for _ in range(tokens):
            self._engine_tit.observe(gap_s / tokens)

    def delivered(self, gap_s: float, *, objective: bool = True) -> None:
        """Two non-empty tokens left `gap_s` apart; `objective` False where no pacing was promised."""
        self._delivered_gap.observe(gap_s)
        if objective and gap_s > self._slo_s:
            self._violations.inc()
            self._starved.inc(gap_s - self._slo_s)

    def ttft(self, seconds: float) -> None:
        """From the caller's words to the first non-empty token sent."""
        self._ttft.observe(seconds)

    def first_audio(self, stages_s: dict[str, float]) -> None:
        """Seconds by stage, keys among FIRST_AUDIO_STAGES."""
        for stage, seconds in stages_s.items():
            self._metrics.first_audio.labels(*self._labels, stage).observe(seconds)

    def barge_in(self, to_silence_s: float, to_abort_s: float | None) -> None:
        """One interrupt; `to_abort_s` None where no request was running any more."""
        self._silence.observe(to_silence_s)
        if to_abort_s is not None:
            self._abort.observe(to_abort_s)

    def underrun(self, seconds: float) -> None:
        """One silence inside a reply because audio came late."""
        self._underrun.observe(seconds)

    def turn_ended(self, reason: str) -> None:
        """A reply ended: stop, length, interrupted, error or tool_calls."""
        self._metrics.turns.labels(*self._labels, reason).inc()
