"""The line a profile prints when it starts: whether it meets the objective, by plan."""

from engine.plan.devices import find_device
from engine.plan.drafts import Speculation, usual_draft
from engine.plan.models import find_model
from engine.plan.roofline import Setup, step_cost

_OBJECTIVE_S = 0.020


def start_line(
    gpu: str,
    model: str,
    *,
    weights: str = "bf16",
    speculation: Speculation = "none",
    tokens_per_step: float | None = None,
    drafts: int | None = None,
    draft_vocabulary: int | None = None,
    draft_model: str | None = None,
    tensor_parallel: int = 1,
) -> str:
    """One call on known hardware with default efficiency: its mean TIT against 20 ms.

    Args:
        gpu, model: as `find_device` and `find_model` know them.
        tokens_per_step: as stored with the heads; assumed for Medusa where None, and then said to be.
        drafts: heads, or draft tokens.
        draft_vocabulary: rows of a shortened vocabulary matrix of the heads.

    Raises:
        PlanError: the GPU or model is not known, or an input does not fit.
    """
    draft = usual_draft(
        speculation,
        tokens_per_step=tokens_per_step,
        depth=drafts,
        vocabulary=draft_vocabulary,
        model=None if draft_model is None else find_model(draft_model),
    )
    setup = Setup(find_device(gpu), find_model(model), draft, weights, tensor_parallel=tensor_parallel)
    return verdict(setup, assumed=tokens_per_step is None and speculation != "none")


def verdict(setup: Setup, assumed: bool = False) -> str:
    """The line for a whole setup; `assumed` says that its acceptance was not measured."""
    tit_s = step_cost(setup, 1).step_s / setup.draft.tokens_per_step
    meets = "meets" if tit_s <= _OBJECTIVE_S else "does not meet"
    remark = f" ({setup.draft.tokens_per_step:g} tokens per step assumed)" if assumed else ""
    return f"by plan, TIT {1000 * tit_s:.1f} ms: {meets} 20 ms{remark}"
