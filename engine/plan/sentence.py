"""The one sentence of a plan, generated from its figures, that a person can act on."""

from engine.plan.forecast import Forecast
from engine.plan.roofline import Setup

# More than any method has been published with on conversation (EAGLE-3, arXiv 2503.01840, comes to about 4 to 5).
_MOST_CREDIBLE_TOKENS_PER_STEP = 5.0


def sentence(plan: Forecast) -> str:
    """Whether the objective is met, why, and what to do next."""
    if plan.setup is not None and not plan.fits_memory:
        return _too_small(plan, plan.setup)
    if plan.meets:
        return _met(plan)
    return _missed(plan)


def _ms(seconds: float) -> str:
    text = f"{1000 * seconds:.1f}"
    return text.removesuffix(".0")


def _calls(count: int) -> str:
    return "1 call" if count == 1 else f"{count} calls"


def _where(plan: Forecast) -> str:
    if plan.setup is None:
        return "This machine"
    count = "One" if plan.setup.tensor_parallel == 1 else f"{plan.setup.tensor_parallel} ×"
    return f"{count} {plan.setup.device.name}"


def _what(plan: Forecast) -> str:
    if plan.setup is None:
        return ""
    speculation = plan.draft.speculation
    draft = "" if speculation == "none" else f" with {speculation}"
    return f" of {plan.setup.model.name} in {plan.setup.weights}{draft}"


def _yield(plan: Forecast) -> str:
    """The step behind the TIT."""
    reads = ""
    if plan.setup is not None and plan.cost is not None and plan.cost.bound == "bandwidth":
        total = plan.cost.weight_bytes + plan.cost.kv_bytes + plan.cost.draft_bytes
        reads = f"reads {total / 1e9:.1f} GB and "
    tokens = f"{plan.draft.tokens_per_step:.3g} token{'' if plan.draft.tokens_per_step == 1 else 's'}"
    return f"a step {reads}takes {_ms(plan.step_s)} ms for {tokens}, {_ms(plan.tit_s)} ms each"


def _met(plan: Forecast) -> str:
    fit, objective = plan.fit, plan.question.objective
    stop = {
        "memory": "memory is full",
        "step time": "the step is too long",
        "bursts": "bursts and other callers' prompts leave holes that the pacer cannot fill",
    }[fit.limit]
    return (
        f"{_where(plan)} meets {_ms(objective.gap_s)} ms for {_calls(plan.question.calls)}{_what(plan)}: "
        f"{_yield(plan)}, {plan.delivered.within:.1%} of gaps in time. "
        f"Admit at most {_calls(fit.calls)} generating at once; beyond that {stop}."
    )


def _missed(plan: Forecast) -> str:
    objective = plan.question.objective
    head = f"{_where(plan)} does not meet {_ms(objective.gap_s)} ms for {_calls(plan.question.calls)}{_what(plan)}: "
    why = _yield(plan)
    if plan.meets_mean:
        asked = f"({100 * objective.share:g}% asked)"
        why += f", but only {plan.delivered.within:.1%} of gaps reach the listener in time {asked}"
    return f"{head}{why}. {_advice(plan)}"


def _advice(plan: Forecast) -> str:
    ways = [f"{change.what}: {_ms(change.tit_s)} ms per token" for change in plan.changes]
    fewer = plan.fit.calls
    if fewer:
        ways.insert(0, f"admit at most {_calls(fewer)}")
    credible = plan.needed_tokens_per_step <= _MOST_CREDIBLE_TOKENS_PER_STEP
    if plan.fits_memory and not plan.meets_mean and credible:
        how = "speculate with" if plan.draft.speculation == "none" else "raise acceptance to"
        ways.append(f"{how} {plan.needed_tokens_per_step:.1f} tokens per step for the mean alone")
    if not ways and plan.question.calls > 1:
        return "No GPU known here meets the objective: share the calls among more replicas."
    if not ways:
        return "No GPU known here meets the objective with this model: take a smaller one."
    text = ", or ".join(ways)
    return f"{text[0].upper()}{text[1:]}."


def _too_small(plan: Forecast, setup: Setup) -> str:
    gpus = setup.tensor_parallel
    weights = setup.model.resident_bytes(setup.weights) + setup.draft.resident_bytes(setup.model)
    budget = gpus * (setup.device.memory_bytes * setup.memory_utilization - setup.reserve_bytes)
    fit = plan.fit.by_memory or 0
    head = (
        f"{_where(plan)} cannot hold {_calls(plan.question.calls)}{_what(plan)}: weights and draft need "
        f"{weights / 1e9:.1f} GB, {budget / 1e9:.1f} GB can be used, room for {_calls(fit)} "
        f"of {setup.context_tokens} tokens."
    )
    return f"{head} {_advice(plan)}"
