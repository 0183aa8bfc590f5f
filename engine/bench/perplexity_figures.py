"""How well one form of a model predicts what another has said, and how sure that is. Pure."""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Score:
    """One reply, read by a model token by token.

    Attributes:
        loss: sum over the reply's tokens of minus the natural logarithm of their probability.
        first: tokens that were the most likely one at their place.
        tokens: of the reply.
        greedy: whether the reply was made by always taking the most likely token.
    """

    loss: float
    first: int
    tokens: int
    greedy: bool

    def __post_init__(self) -> None:
        if self.tokens < 1 or not 0 <= self.first <= self.tokens:
            raise ValueError(f"{self.first} of {self.tokens} tokens cannot be the most likely ones")


def perplexity(scores: Sequence[Score]) -> float:
    """exp of the mean loss per token; every token counts the same, whichever reply it is in."""
    return math.exp(sum(score.loss for score in scores) / sum(score.tokens for score in scores))


def agreement(scores: Sequence[Score]) -> float | None:
    """Share of the tokens of greedy replies that this model would have taken as well; None without such replies."""
    greedy = [score for score in scores if score.greedy]
    tokens = sum(score.tokens for score in greedy)
    return sum(score.first for score in greedy) / tokens if tokens else None


def ratio(scores: Sequence[Score], base: Sequence[Score], seed: int) -> tuple[float, float, float]:
    """Perplexity against `base`'s on the same replies: value, and a 95 % bootstrap interval over replies.

    Raises:
        ValueError: the two are not of the same replies.
    """
    if [score.tokens for score in scores] != [score.tokens for score in base]:
        raise ValueError("both must be scores of the same replies")
    pairs = [(one.loss - other.loss, one.tokens) for one, other in zip(scores, base, strict=True)]
    draw = random.Random(seed)
    values = sorted(_ratio(draw.choices(pairs, k=len(pairs))) for _ in range(RESAMPLES))
    return _ratio(pairs), values[RESAMPLES // 40], values[-RESAMPLES // 40 - 1]


def _ratio(pairs: Sequence[tuple[float, int]]) -> float:
    return math.exp(sum(more for more, _ in pairs) / sum(tokens for _, tokens in pairs))


def document(scores: Mapping[str, Sequence[Score]], seed: int) -> dict[str, Any]:
    """Figures of every arm, fit for JSON; the first arm is what the others are compared with."""
    base = next(iter(scores.values()))
    rows = []
    for arm, own in scores.items():
        value, low, high = ratio(own, base, seed)
        agreed = agreement(own)
        rows.append(
            {
                "arm": arm,
                "perplexity": round(perplexity(own), 4),
                "ratio": round(value, 4),
                "ci95": [round(low, 4), round(high, 4)],
                "agreement": None if agreed is None else round(agreed, 4),
            }
        )
    return {"replies": len(base), "tokens": sum(score.tokens for score in base), "arms": rows}


def table(found: Mapping[str, Any]) -> str:
    """The document as text."""
    lines = [
        f"{found['replies']} held-out replies, {found['tokens']} tokens",
        f"{'':<24}{'perplexity':>12}{'ratio':>9}{'95 % interval':>18}{'greedy agreement':>19}",
    ]
    for row in found["arms"]:
        interval = f"{row['ci95'][0]:.4f}-{row['ci95'][1]:.4f}"
        agreed = "-" if row["agreement"] is None else f"{row['agreement']:.2%}"
        lines.append(f"{row['arm']:<24}{row['perplexity']:>12.4f}{row['ratio']:>9.4f}{interval:>18}{agreed:>19}")
    return "\n".join(lines)
