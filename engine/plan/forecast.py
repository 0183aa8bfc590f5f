"""One plan: step time, TIT, TTFT, room, calls, cost and what to change, for one setup."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from engine.plan.capacity import Fit, Objective, calls_that_fit, delivered_at, kv_room_tokens
from engine.plan.delivery import Delivered, Pacing
from engine.plan.devices import faster_devices
from engine.plan.drafts import Draft
from engine.plan.errors import PlanError, require_positive
from engine.plan.roofline import Setup, StepCost, step_cost
from engine.plan.timing import Roofline, Timing


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of a setup.

    Attributes:
        calls: calls that generate at the same moment.
        prompt_tokens: tokens of a new turn that the prefix cache does not hold.
        price_per_hour: of one GPU, in any currency; None leaves cost out.
    """

    calls: int = 1
    prompt_tokens: int = 256
    price_per_hour: float | None = None
    objective: Objective = Objective()

    def __post_init__(self) -> None:
        require_positive("calls", self.calls)
        require_positive("prompt-tokens", self.prompt_tokens)
        if self.price_per_hour is not None:
            require_positive("price-per-hour", self.price_per_hour)


@dataclass(frozen=True, slots=True)
class Change:
    """Something to do instead, and the TIT it brings at the same number of calls."""

    what: str
    tit_s: float


@dataclass(frozen=True, slots=True)
class Forecast:
    """The plan's figures.

    Attributes:
        setup: None where only a measurement of this machine is known.
        cost: bytes and FLOPs behind the step; None where the step time was fitted on a measurement.
        room_tokens: tokens of keys and values beside the weights; None where the device is not known.
        delivered: gaps at `question.calls`.
        changes: what would meet the objective, nearest first; empty where it is met.
    """

    question: Question
    draft: Draft
    setup: Setup | None
    cost: StepCost | None
    step_s: float
    ttft_s: float | None
    room_tokens: int | None
    fit: Fit
    delivered: Delivered
    changes: tuple[Change, ...] = ()

    @property
    def tit_s(self) -> float:
        """Mean time per token of one call."""
        return self.step_s / self.draft.tokens_per_step

    @property
    def meets_mean(self) -> bool:
        """The mean TIT is within the objective."""
        return self.tit_s <= self.question.objective.gap_s

    @property
    def fits_memory(self) -> bool:
        """Weights and the asked calls fit the device, as far as it is known."""
        return self.fit.by_memory is None or self.fit.by_memory >= self.question.calls

    @property
    def meets(self) -> bool:
        """Memory, mean TIT and the share of delivered gaps all hold at the asked number of calls."""
        within = self.delivered.within >= self.question.objective.share
        return self.fits_memory and self.meets_mean and within

    @property
    def needed_tokens_per_step(self) -> float:
        """Acceptance length at which this step time meets the objective on the mean."""
        return self.step_s / self.question.objective.gap_s

    def cost_per_call_minute(self, calls: int) -> float | None:
        """Price of all GPUs of the replica, shared by that many calls."""
        if self.question.price_per_hour is None or calls < 1:
            return None
        gpus = self.setup.tensor_parallel if self.setup is not None else 1
        return self.question.price_per_hour * gpus / 60 / calls


def forecast(setup: Setup, question: Question, pacing: Pacing) -> Forecast:
    """The plan by the roofline.

    Args:
        pacing: makes a fresh pacer; see `engine.plan.delivery`.

    Raises:
        PlanError: an input is wrong.
    """
    if question.prompt_tokens > setup.context_tokens:
        raise PlanError("prompt-tokens", f"must not be above the context of {setup.context_tokens}")
    timing = Roofline(setup, question.prompt_tokens)
    plan = _forecast(timing, setup.draft, question, pacing, kv_room_tokens(setup), setup.context_tokens)
    plan = replace(plan, setup=setup, cost=step_cost(setup, question.calls))
    if plan.meets:
        return plan
    return replace(plan, changes=tuple(_changes(setup, question, pacing)))


def forecast_measured(timing: Timing, draft: Draft, question: Question, pacing: Pacing) -> Forecast:
    """The plan by step times measured on a machine whose memory is not known here.

    Raises:
        PlanError: an input is wrong.
    """
    return _forecast(timing, draft, question, pacing, None, 1)


def _forecast(
    timing: Timing, draft: Draft, question: Question, pacing: Pacing, room_tokens: int | None, tokens_per_call: int
) -> Forecast:
    calls, objective = question.calls, question.objective
    return Forecast(
        question=question,
        draft=draft,
        setup=None,
        cost=None,
        step_s=timing.step_s(calls),
        ttft_s=timing.ttft_s(calls),
        room_tokens=room_tokens,
        fit=calls_that_fit(timing, draft, room_tokens, tokens_per_call, pacing, objective),
        delivered=delivered_at(timing, draft, calls, pacing, objective),
    )


def _changes(setup: Setup, question: Question, pacing: Pacing) -> Iterator[Change]:
    """Setups that meet the objective: the first that keeps the GPU, and the first other GPU."""
    for candidates in (_same_gpu(setup), _other_gpus(setup)):
        for what, candidate in candidates:
            timing = Roofline(candidate, question.prompt_tokens)
            tit_s = timing.step_s(question.calls) / candidate.draft.tokens_per_step
            roomy = kv_room_tokens(candidate) >= question.calls * candidate.context_tokens
            if not roomy or tit_s > question.objective.gap_s:
                continue
            delivered = delivered_at(timing, candidate.draft, question.calls, pacing, question.objective)
            if delivered.within >= question.objective.share:
                yield Change(what, tit_s)
                break


def _same_gpu(setup: Setup) -> Iterator[tuple[str, Setup]]:
    """Changes of software, smallest first."""
    name = setup.device.name
    stacked = replace(setup, draft=replace(setup.draft, read="stacked"))
    if setup.draft.read == "per_head":
        yield "read the vocabulary matrix once for all heads (--draft-read stacked)", stacked
    for weights in ("fp8", "int4"):
        if setup.model.read_bytes(weights) >= setup.model.read_bytes(setup.weights):
            continue
        yield f"use {weights} weights on the {name} (--weights {weights})", replace(setup, weights=weights)
        if setup.draft.read == "per_head":
            both = f"use {weights} weights on the {name} and read the vocabulary matrix once"
            yield f"{both} (--weights {weights} --draft-read stacked)", replace(stacked, weights=weights)


def _other_gpus(setup: Setup) -> Iterator[tuple[str, Setup]]:
    """Faster devices, slowest first; then more of the same one."""
    count = f"{setup.tensor_parallel} × " if setup.tensor_parallel > 1 else "one "
    for weights in dict.fromkeys((setup.weights, "fp8")):
        if setup.model.read_bytes(weights) > setup.model.read_bytes(setup.weights):
            continue
        how = "" if weights == setup.weights else f" --weights {weights}"
        for device in faster_devices(setup.device):
            what = f"take {count}{device.name} (--gpu {device.name}{how})"
            yield what, replace(setup, device=device, weights=weights)
    for gpus in (2, 4, 8):
        if gpus > setup.tensor_parallel and setup.model.heads % gpus == 0:
            shared = replace(setup, tensor_parallel=gpus)
            yield f"share the model among {gpus} × {setup.device.name} (--tensor-parallel {gpus})", shared
