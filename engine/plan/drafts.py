"""What speculation costs and yields per step: rows to verify, bytes and FLOPs of the draft, tokens kept.

Medusa (arXiv 2401.10774): each head is one residual block and a vocabulary matrix. vLLM's chain reads the vocabulary
matrix once for every head (`per_head`); one stacked product reads it once (`stacked`); `none` counts nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from engine.plan.errors import PlanError
from engine.plan.models import ModelShape

Speculation = Literal["none", "ngram", "suffix", "draft_model", "medusa", "medusa_tree"]
DraftRead = Literal["none", "stacked", "per_head"]
SPECULATIONS: tuple[str, ...] = get_args(Speculation)
DRAFT_READS: tuple[str, ...] = get_args(DraftRead)

_HEAD_BYTES = 2.0  # heads are kept in 16 bits
# Acceptance where nothing else is known, low ends of published ones; every other method has to be told its own.
ASSUMED_TOKENS_PER_STEP: Mapping[str, float] = {"none": 1.0, "medusa": 2.4, "medusa_tree": 2.8}
# vLLM's chain runs its heads one by one; the tree stacks them.
_USUAL_READ: Mapping[str, DraftRead] = {"medusa": "per_head", "medusa_tree": "stacked"}
_USUAL_DEPTH: Mapping[str, int] = {"none": 0, "draft_model": 5}
_USUAL_TREE_NODES = 16


@dataclass(frozen=True, slots=True)
class Draft:
    """A speculation method and how well it does.

    Attributes:
        speculation: the method.
        tokens_per_step: acceptance length, bonus token included; 1 without speculation.
        depth: most draft tokens a step can keep (heads, or draft tokens).
        nodes: rows verified beyond the first; equals `depth` for a chain.
        read: how Medusa heads read the vocabulary matrix; None for other methods.
        vocabulary: rows of the heads' vocabulary matrix, None for the model's own.
        model: the draft model of `draft_model`, in bf16.
        measured_by_depth: share of steps that kept at least 1, 2, ... draft tokens, where it was measured.
    """

    speculation: Speculation = "none"
    tokens_per_step: float = 1.0
    depth: int = 0
    nodes: int = 0
    read: DraftRead | None = None
    vocabulary: int | None = None
    model: ModelShape | None = None
    measured_by_depth: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if self.speculation not in SPECULATIONS:
            raise PlanError("speculation", f"{self.speculation!r} is not one of {', '.join(SPECULATIONS)}")
        if self.measured_by_depth is not None and len(self.measured_by_depth) != self.depth:
            raise PlanError(
                "depth", f"is {self.depth}, but acceptance was measured at {len(self.measured_by_depth)} depths"
            )
        if self.depth < 0 or self.nodes < self.depth:
            raise PlanError("nodes", f"a tree of depth {self.depth} has at least {self.depth} nodes, got {self.nodes}")
        if not 1 <= self.tokens_per_step <= 1 + self.depth:
            allowed = f"between 1 and {1 + self.depth}"
            raise PlanError(
                "tokens-per-step", f"must be {allowed} with {self.depth} drafts, got {self.tokens_per_step:g}"
            )
        if (self.speculation == "draft_model") != (self.model is not None):
            raise PlanError("draft-model", "is needed for speculation draft_model, and only there")
        if self.vocabulary is not None and self.vocabulary < 1:
            raise PlanError("draft-vocabulary", f"must be at least 1, got {self.vocabulary}")
        if self.read is not None and self.read not in DRAFT_READS:
            raise PlanError("draft-read", f"{self.read!r} is not one of {', '.join(DRAFT_READS)}")

    @property
    def is_medusa(self) -> bool:
        """Heads on the target model's last hidden state."""
        return self.speculation in ("medusa", "medusa_tree")

    def head_weights(self, target: ModelShape) -> int:
        """Weights the heads read in a step; 0 for other methods and `none`."""
        if not self.is_medusa or self.read in (None, "none"):
            return 0
        matrix = min(self.vocabulary or target.vocabulary, target.vocabulary) * target.hidden
        matrices = self.depth if self.read == "per_head" else 1
        return self.depth * target.hidden**2 + matrices * matrix

    def read_bytes(self, target: ModelShape) -> float:
        """Bytes of weights the draft reads in a step; a draft model is read once for every token it proposes."""
        if self.model is not None:
            return self.depth * self.model.read_bytes("bf16")
        return self.head_weights(target) * _HEAD_BYTES

    def resident_bytes(self, target: ModelShape) -> float:
        """Bytes the draft holds in memory.

        Heads share the model's vocabulary matrix, or a shortened copy of it. A checkpoint whose heads bring matrices
        of their own holds one more per head.
        """
        if self.model is not None:
            return self.model.resident_bytes("bf16")
        if not self.is_medusa:
            return 0.0
        copy = 0 if self.vocabulary is None else min(self.vocabulary, target.vocabulary) * target.hidden
        return (self.depth * target.hidden**2 + copy) * _HEAD_BYTES

    def kv_bytes_per_token(self) -> float:
        """Keys and values the draft model keeps per token."""
        return self.model.kv_bytes_per_token("bf16") if self.model is not None else 0.0

    def flops(self, target: ModelShape) -> float:
        """FLOPs to draft one step of one call."""
        if self.model is not None:
            return 2.0 * self.depth * (self.model.linear_weights + self.model.vocabulary_weights)
        if not self.is_medusa or self.read in (None, "none"):
            return 0.0
        matrix = min(self.vocabulary or target.vocabulary, target.vocabulary) * target.hidden
        return 2.0 * self.depth * (target.hidden**2 + matrix)

    def burst_shares(self) -> tuple[float, ...]:
        """Probability of a burst of 1, 2, ... tokens: as measured, or from one acceptance rate at every depth."""
        reached = (1.0, *(self.measured_by_depth or _even_acceptance(self.tokens_per_step, self.depth)), 0.0)
        return tuple(here - beyond for here, beyond in zip(reached, reached[1:], strict=False))


def usual_draft(
    speculation: Speculation,
    *,
    tokens_per_step: float | None = None,
    measured_by_depth: tuple[float, ...] | None = None,
    depth: int | None = None,
    nodes: int | None = None,
    read: DraftRead | None = None,
    vocabulary: int | None = None,
    model: ModelShape | None = None,
) -> Draft:
    """A draft with what is usual for its method where nothing is given.

    Raises:
        PlanError: the acceptance is needed and cannot be assumed, or the parts do not fit together.
    """
    if depth is None:
        depth = len(measured_by_depth) if measured_by_depth else _USUAL_DEPTH.get(speculation, 4)
    if measured_by_depth is not None:
        tokens_per_step = 1 + sum(measured_by_depth)
    tokens = ASSUMED_TOKENS_PER_STEP.get(speculation) if tokens_per_step is None else tokens_per_step
    if tokens is None:
        raise PlanError("tokens-per-step", f"is needed for speculation {speculation}: nothing sound can be assumed")
    if nodes is None:
        nodes = max(depth, _USUAL_TREE_NODES) if speculation == "medusa_tree" else depth
    usual_read = _USUAL_READ.get(speculation)
    chosen = None if usual_read is None else read or usual_read
    return Draft(speculation, tokens, depth, nodes, chosen, vocabulary, model, measured_by_depth)


def measured_draft_shares(shares: Sequence[float]) -> tuple[float, ...]:
    """Checks measured shares of steps that kept at least 1, 2, ... drafts.

    Raises:
        PlanError: not shares, or rising with depth.
    """
    if not shares or any(not 0 <= share <= 1 for share in shares):
        raise PlanError("acceptance", "accepted_by_depth must hold shares between 0 and 1")
    if any(later > earlier + 1e-9 for earlier, later in zip(shares, shares[1:], strict=False)):
        raise PlanError("acceptance", "accepted_by_depth cannot rise with depth")
    return tuple(shares)


def _even_acceptance(tokens_per_step: float, depth: int) -> tuple[float, ...]:
    """Shares a, a², ... with 1 + a + ... + a^depth = tokens_per_step (Leviathan et al., arXiv 2211.17192)."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if sum(middle**k for k in range(depth + 1)) < tokens_per_step:
            low = middle
        else:
            high = middle
    return tuple(high**k for k in range(1, depth + 1))
