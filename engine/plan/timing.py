"""How long steps take at a number of calls: by the roofline, or by a line fitted on this machine."""

from dataclasses import dataclass
from typing import Protocol

from engine.plan.calibration import Line, Measured, fit_line
from engine.plan.roofline import Setup, step_cost, ttft_s


class Timing(Protocol):
    """Seconds by number of generating calls, at least 1."""

    def step_s(self, calls: int) -> float:
        """A step that only decodes."""

    def prefill_step_s(self, calls: int) -> float:
        """A step that also reads a new turn's prompt."""

    def ttft_s(self, calls: int) -> float | None:
        """Time to first token of the last of `calls`; None where unknown."""


@dataclass(frozen=True, slots=True)
class Roofline:
    """By bytes and FLOPs. `prompt_tokens` are those of a new turn that the prefix cache does not hold."""

    setup: Setup
    prompt_tokens: int

    def step_s(self, calls: int) -> float:
        """A step that only decodes."""
        return step_cost(self.setup, calls).step_s

    def prefill_step_s(self, calls: int) -> float:
        """A step that also reads a new turn's prompt."""
        return step_cost(self.setup, calls, self.prompt_tokens).step_s

    def ttft_s(self, calls: int) -> float:
        """Time to first token of the last of `calls`."""
        return ttft_s(self.setup, calls, self.prompt_tokens)


class Calibrated:
    """By lines through a measurement; the prompt is the measurement's.

    Raises:
        PlanError: fewer than two batch sizes.
    """

    def __init__(self, measured: Measured) -> None:
        self.step: Line = fit_line(measured.step_s)
        self.first: Line | None = fit_line(measured.ttft_s) if len(measured.ttft_s) > 1 else None

    def step_s(self, calls: int) -> float:
        """A step that only decodes."""
        return self.step.at(calls)

    def prefill_step_s(self, calls: int) -> float:
        """Prompts of a measured batch arrive together: each one more adds its own reading to the TTFT."""
        own = self.first.at(calls + 1) - self.first.at(calls) if self.first is not None else 0.0
        return self.step_s(calls) + max(0.0, own)

    def ttft_s(self, calls: int) -> float | None:
        """Time to first token when `calls` begin together."""
        return None if self.first is None else self.first.at(calls)
