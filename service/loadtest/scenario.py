"""What simulated callers do, drawn from a seed before anything runs. Pure: the same seed gives the same callers.

A *line* makes one call after the other for as long as the test lasts, so as many calls are held at a time as there are
lines. Every line draws from a generator of its own: more lines, or more processes, change nothing for the others.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

QUESTIONS = (
    "What are your opening hours on Saturday?",
    "I would like to change the delivery address of my order.",
    "How long does it take until somebody can come and repair it?",
    "Could you tell me again what the total was?",
    "My name is Robin and I am calling about the apartment.",
    "Is there a table for four free tomorrow evening?",
    "Why was I charged twice this month?",
    "Please cancel my appointment on Thursday.",
    "Do you also have it in a larger size?",
    "What should I do if the light keeps blinking?",
)


@dataclass(frozen=True, slots=True)
class Scenario:
    """One load.

    Attributes:
        calls: held at a time.
        ramp_s: over which the first calls arrive; nothing that happens in it enters the figures.
        duration_s: measured time after the ramp.
        turns: utterances of a call.
        think_s: shortest and longest time between the end of a reply and the next utterance.
        interrupt_share: of replies, broken into.
        hang_up_share: of calls, whose socket vanishes in the middle of a reply.
        hypotheses: partial transcripts before each final one.
    """

    calls: int
    ramp_s: float = 5.0
    duration_s: float = 30.0
    turns: int = 4
    think_s: tuple[float, float] = (0.5, 2.5)
    interrupt_share: float = 0.1
    hang_up_share: float = 0.05
    hypotheses: int = 2
    seed: int = 1
    questions: Sequence[str] = QUESTIONS


@dataclass(frozen=True, slots=True)
class TurnScript:
    """One utterance, and what the caller does during the reply (times from the reply's first token or frame)."""

    think_s: float
    text: str
    hypotheses: tuple[str, ...] = ()
    interrupt_after_s: float | None = None
    hang_up_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class CallScript:
    """One call. `pause_s`: from the start of the test, or the end of the line's call before."""

    pause_s: float
    turns: tuple[TurnScript, ...]


def line_scripts(scenario: Scenario, line: int) -> Iterator[CallScript]:
    """The calls of one line, without end."""
    draw = random.Random(f"{scenario.seed}/{line}")
    pause_s = draw.uniform(0.0, scenario.ramp_s)
    while True:
        hangs_up_in = draw.randrange(scenario.turns) if draw.random() < scenario.hang_up_share else -1
        turns = (_turn(scenario, draw, number == hangs_up_in) for number in range(scenario.turns))
        yield CallScript(pause_s, tuple(turns))
        pause_s = draw.expovariate(1 / 0.25)  # the next caller: a Poisson arrival once the line is free


def _turn(scenario: Scenario, draw: random.Random, hangs_up: bool) -> TurnScript:
    think_s, text = draw.uniform(*scenario.think_s), draw.choice(scenario.questions)
    words = text.split()
    cuts = sorted(draw.randint(1, len(words)) for _ in range(scenario.hypotheses))
    interrupts, after_s = draw.random() < scenario.interrupt_share, draw.uniform(0.1, 1.0)
    return TurnScript(
        think_s,
        text,
        tuple(" ".join(words[:cut]) for cut in cuts),
        interrupt_after_s=after_s if interrupts and not hangs_up else None,
        hang_up_after_s=after_s if hangs_up else None,
    )
