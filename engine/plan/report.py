"""A plan as a table and as JSON."""

from collections.abc import Iterable

from engine.plan.forecast import Forecast
from engine.plan.sentence import sentence


def as_json(plan: Forecast) -> dict[str, object]:
    """Figures with units in their names; None where something is not known."""
    fit, delivered, setup, cost = plan.fit, plan.delivered, plan.setup, plan.cost
    return {
        "tit_ms": _rounded(1000 * plan.tit_s),
        "step_ms": _rounded(1000 * plan.step_s),
        "ttft_ms": None if plan.ttft_s is None else _rounded(1000 * plan.ttft_s),
        "meets_objective": plan.meets,
        "meets_on_average": plan.meets_mean,
        "calls": plan.question.calls,
        "tokens_per_step": plan.draft.tokens_per_step,
        "tokens_per_step_needed": _rounded(plan.needed_tokens_per_step),
        "bound": None if cost is None else cost.bound,
        "bytes_per_step": None
        if cost is None
        else {"weights": cost.weight_bytes, "kv": cost.kv_bytes, "draft": cost.draft_bytes},
        "kv_room_tokens": plan.room_tokens,
        "calls_that_fit": fit.calls,
        "calls_by_limit": {"memory": fit.by_memory, "step_time": fit.by_step_time, "bursts": fit.by_delivery},
        "delivered": {
            "share_within_objective": _rounded(delivered.within),
            "gap_mean_ms": _rounded(1000 * delivered.mean_s),
            "gap_p99_ms": _rounded(1000 * delivered.p99_s),
            "starved_s_per_minute": _rounded(delivered.starved_s_per_minute),
        },
        "cost_per_call_minute": plan.cost_per_call_minute(plan.question.calls),
        "cost_per_call_minute_full": plan.cost_per_call_minute(fit.calls),
        "changes": [{"what": change.what, "tit_ms": _rounded(1000 * change.tit_s)} for change in plan.changes],
        "assumptions": _assumptions(plan),
        "gpu": None if setup is None else setup.device.name,
        "model": None if setup is None else setup.model.name,
        "sentence": sentence(plan),
    }


def as_text(plan: Forecast, notes: Iterable[str] = ()) -> str:
    """An aligned table, the notes, and the sentence."""
    rows = [*_setup_rows(plan), *_figure_rows(plan)]
    width = max(len(name) for name, _ in rows)
    table = "\n".join(f"{name:<{width}}  {value}" for name, value in rows)
    remarks = "".join(f"\nnote: {note}" for note in notes)
    return f"{table}{remarks}\n\n{sentence(plan)}"


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")


def _setup_rows(plan: Forecast) -> list[tuple[str, str]]:
    setup, draft = plan.setup, plan.draft
    measured = "measured" if draft.measured_by_depth else "given or assumed"
    speculation: str = draft.speculation
    if speculation != "none":
        speculation += f", {draft.tokens_per_step:.3g} tokens per step ({measured}), {draft.nodes} rows verified"
        speculation += f", vocabulary read {draft.read}" if draft.read else ""
    if setup is None:
        return [("step time", "a line fitted on the given measurement"), ("speculation", speculation)]
    device, model = setup.device, setup.model
    count = f"{setup.tensor_parallel} × " if setup.tensor_parallel > 1 else ""
    speed = f"{device.bandwidth_bytes_per_s / 1e9:.4g} GB/s, {device.bf16_flops / 1e12:.4g} TFLOPS bf16"
    return [
        ("GPU", f"{count}{device.name}: {speed}, {device.memory_bytes / 1e9:.4g} GB ({device.source})"),
        ("model", f"{model.name}: {model.parameters / 1e9:.3g} billion weights ({model.source})"),
        ("precision", f"weights {setup.weights}, keys and values {setup.kv}; context {setup.context_tokens} tokens"),
        ("speculation", speculation),
    ]


def _figure_rows(plan: Forecast) -> list[tuple[str, str]]:
    fit, delivered, objective = plan.fit, plan.delivered, plan.question.objective
    bound = "" if plan.cost is None else f" (bound by {plan.cost.bound})"
    gap_ms = 1000 * objective.gap_s
    rows = [
        ("calls at once", f"{plan.question.calls}"),
        ("step", f"{1000 * plan.step_s:.1f} ms{bound}{_read(plan)}"),
        ("TIT", f"{1000 * plan.tit_s:.1f} ms, {'within' if plan.meets_mean else 'over'} {gap_ms:g} ms on the mean"),
        ("TTFT", "not known" if plan.ttft_s is None else f"{1000 * plan.ttft_s:.0f} ms in the engine"),
        (
            "gaps in time",
            f"{delivered.within:.1%} of delivered gaps at most {gap_ms:g} ms ({100 * objective.share:g}% asked)",
        ),
        ("starved", f"{delivered.starved_s_per_minute:.2f} s per minute; p99 gap {1000 * delivered.p99_s:.1f} ms"),
        ("room", "not known" if plan.room_tokens is None else f"{max(0, plan.room_tokens)} tokens of keys and values"),
        ("calls that fit", f"{fit.calls}: {_limits(plan)}"),
    ]
    cost = plan.cost_per_call_minute(plan.question.calls)
    if cost is not None:
        full = plan.cost_per_call_minute(fit.calls)
        at_full = "" if full is None else f"; {full:.5f} with {fit.calls} calls"
        rows.append(("cost", f"{cost:.5f} per call-minute{at_full}"))
    return rows


def _read(plan: Forecast) -> str:
    if plan.cost is None:
        return ""
    cost = plan.cost
    return (
        f": {cost.weight_bytes / 1e9:.2f} GB weights, {cost.kv_bytes / 1e9:.2f} GB keys and values, "
        f"{cost.draft_bytes / 1e9:.2f} GB draft"
    )


def _limits(plan: Forecast) -> str:
    memory = "not known" if plan.fit.by_memory is None else str(plan.fit.by_memory)
    return f"{memory} by memory, {plan.fit.by_step_time} by step time, {plan.fit.by_delivery} by bursts"


def _assumptions(plan: Forecast) -> dict[str, object]:
    question, setup = plan.question, plan.setup
    named: dict[str, object] = {
        "objective_ms": 1000 * question.objective.gap_s,
        "slo_share": question.objective.share,
        "turn_interval_s": question.objective.turn_interval_s,
        "tokens_per_step_measured": plan.draft.measured_by_depth is not None,
    }
    if setup is not None:
        named |= {
            "bandwidth_efficiency": setup.bandwidth_efficiency,
            "flops_efficiency": setup.flops_efficiency,
            "overhead_ms": 1000 * setup.overhead_s,
            "context_tokens": setup.context_tokens,
            "prompt_tokens": question.prompt_tokens,
            "memory_utilization": setup.memory_utilization,
            "tensor_parallel": setup.tensor_parallel,
            "weights": setup.weights,
            "kv": setup.kv,
        }
    return named
