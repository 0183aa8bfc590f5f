"""Engine traces: when each step's tokens came, reply by reply. Generated from a seed, or recorded and kept as JSON.

A trace file holds `{"description": ..., "provenance": {...}, "replies": [[[core_time_s, n], ...], ...]}`: for every reply
its bursts in order, each with the engine core's monotonic timestamp in seconds and its number of tokens. A file that is
just one list of `[core_time_s, n]` is a single reply.
"""

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Burst = tuple[float, int]
Reply = tuple[Burst, ...]

RECORDED = Path(__file__).parent / "traces"


@dataclass(frozen=True)
class Trace:
    """Replies of one engine setting, in the order in which they were made."""

    name: str
    description: str
    replies: tuple[Reply, ...]

    @property
    def step_s(self) -> float:
        """Mean time between two bursts of a reply."""
        gaps = [after[0] - before[0] for reply in self.replies for before, after in zip(reply, reply[1:], strict=False)]
        return sum(gaps) / len(gaps)

    @property
    def tokens_per_step(self) -> float:
        """Mean size of a burst, the first of each reply left out (it comes from the prefill)."""
        sizes = [burst[1] for reply in self.replies for burst in reply[1:]]
        return sum(sizes) / len(sizes)

    @property
    def token_s(self) -> float:
        """Mean time per token."""
        return self.step_s / self.tokens_per_step


def record(path: Path, replies: Iterable[Iterable[Burst]], description: str, provenance: Mapping[str, Any]) -> None:
    """Write a trace file.

    Args:
        path: of the file; its stem names the trace.
        replies: bursts of each reply as (core_time_s, n), e.g. `(burst.core_time_s, len(burst.token_ids))` of every
            `TokenBurst`; bursts without tokens are left out, times are kept relative to the first burst of the reply.
        description: one line: engine, speculation, concurrent calls.
        provenance: how it was made (versions, hardware, command, seed).

    Raises:
        ValueError: a reply's timestamps decrease.
    """
    kept = []
    for reply in replies:
        bursts = [(time, count) for time, count in reply if count]
        if any(after[0] < before[0] for before, after in zip(bursts, bursts[1:], strict=False)):
            raise ValueError("core_time_s: timestamps of a reply decrease")
        if bursts:
            kept.append([[round(time - bursts[0][0], 6), count] for time, count in bursts])
    document = {"description": description, "provenance": dict(provenance), "replies": kept}
    path.write_text(json.dumps(document, separators=(",", ":")) + "\n")


def load(path: Path) -> Trace:
    """Read a trace file.

    Raises:
        ValueError: naming the file and what is wrong with it.
    """
    try:
        document = json.loads(path.read_text())
        if isinstance(document, list):
            document = {"description": path.stem, "replies": [document]}
        replies = tuple(tuple((float(time), int(n)) for time, n in reply) for reply in document["replies"])
        description = str(document["description"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: not a trace file ({error})") from error
    if not any(len(reply) > 1 for reply in replies):
        raise ValueError(f"{path}: no reply with two bursts")
    return Trace(path.stem, description, replies)


def recorded() -> list[Trace]:
    """The traces that come with the package."""
    return [load(path) for path in sorted(RECORDED.glob("*.json"))]


@dataclass(frozen=True)
class Process:
    """A generated engine.

    Attributes:
        step_ms: time of a step.
        acceptance: probability that a draft token is accepted when all before it were.
        heads: draft tokens per step.
        swing: acceptance goes up and down by this in runs (correlated acceptance); 0 is independent.
        run_steps: mean length of such a run.
        jitter: standard deviation of the step time as a share of it.
        stall_probability: of a step taking `stall_ms` longer.
        stall_ms: length of a stall.
        slow_start_steps: the first steps of a reply take twice as long.
        tokens: length of a reply.
    """

    step_ms: float
    acceptance: float = 0.0
    heads: int = 4
    swing: float = 0.0
    run_steps: float = 6.0
    jitter: float = 0.0
    stall_probability: float = 0.0
    stall_ms: float = 0.0
    slow_start_steps: int = 0
    tokens: int = 120

    def reply(self, rng: random.Random) -> Reply:
        """One reply; the first burst, from the prefill, is one token at time 0."""
        bursts: list[Burst] = [(0.0, 1)]
        time, made, high = 0.0, 1, rng.random() < 0.5
        while made < self.tokens:
            if rng.random() < 1 / self.run_steps:
                high = not high
            accepted = 0
            likely = self.acceptance + (self.swing if high else -self.swing)
            while accepted < self.heads and rng.random() < likely:
                accepted += 1
            step_s = self.step_ms / 1000 * max(0.2, 1 + self.jitter * rng.gauss(0, 1))
            if len(bursts) <= self.slow_start_steps:
                step_s *= 2
            if rng.random() < self.stall_probability:
                step_s += self.stall_ms / 1000
            time += step_s
            count = min(1 + accepted, self.tokens - made)
            made += count
            bursts.append((time, count))
        return tuple(bursts)


PROCESSES: dict[str, tuple[str, Process]] = {
    "steps-29ms-2.4": ("29 ms, 2.4 tokens, independent acceptance", Process(29.0, 0.617)),
    "steps-29ms-2.4-correlated": ("29 ms, 2.4 tokens, acceptance in runs", Process(29.0, 0.6, swing=0.13)),
    "steps-30ms-2.4-jitter": ("30 ms, 2.4 tokens, step time 10 % deviation", Process(30.0, 0.617, jitter=0.1)),
    "steps-20ms-3": ("20 ms, 3 tokens", Process(20.0, 0.75)),
    "l4-published": ("the published L4 point: 44.6 ms, 2.77 tokens", Process(44.6, 0.7)),
    "l4-published-correlated": ("44.6 ms, 2.77 tokens, acceptance in runs", Process(44.6, 0.68, swing=0.13)),
    "l4-published-jitter": ("44.6 ms, 2.77 tokens, step time 10 % deviation", Process(44.6, 0.7, jitter=0.1)),
    "l4-published-slow-start": ("44.6 ms, 2.77 tokens, six slow steps", Process(44.6, 0.7, slow_start_steps=6)),
    "l4-published-stalls": (
        "44.6 ms, 2.77 tokens, 2 % of steps 150 ms longer",
        Process(44.6, 0.7, stall_probability=0.02, stall_ms=150.0),
    ),
    "steps-45ms-2.45": ("45 ms, 2.45 tokens", Process(45.0, 0.627)),
    "plain-15ms": ("15 ms, one token", Process(15.0, heads=0)),
    "plain-45ms": ("45 ms, one token: 22 tokens/s", Process(45.0, heads=0, jitter=0.05)),
    "slow-45ms-1.5": ("45 ms, 1.5 tokens: 33 tokens/s", Process(45.0, 0.36)),
}
"""Engines by name, with what they stand for."""


def generated(replies: int = 200, seed: int = 1, names: Sequence[str] | None = None) -> list[Trace]:
    """The generated traces, the same for the same seed."""
    traces = []
    for name in names or PROCESSES:
        description, process = PROCESSES[name]
        rngs = (random.Random(f"{seed} {name} {index}") for index in range(replies))
        traces.append(Trace(name, description, tuple(process.reply(rng) for rng in rngs)))
    return traces
