"""Whether heads still fit the traffic, from what a running service exports. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

_SUM, _COUNT = "voicepace_acceptance_length_sum", "voicepace_acceptance_length_count"
_TREES, _TREE_TOKENS = "voicepace_tree_verified_total", "voicepace_tree_tokens_total"
_GRAFTED, _EXPECTED = "voicepace_tree_graft_tokens_total", "voicepace_tree_expected_tokens_total"
_STORED = "voicepace_heads_acceptance_length"
_ACCEPTED = "voicepace_accepted_total"
# Below this share of what they gained when they were trained, heads are worth training again.
_WORTH_KEEPING = 0.5


@dataclass(frozen=True, slots=True)
class Fit:
    """What the service has seen since its start.

    Attributes:
        steps: of all replies.
        mean: acceptance length, bonus token included; None before the first step.
        stored: the value kept with the heads; None where heads keep none.
        accepted: for each depth up to the deepest one reached, steps that kept a drafted token there.
        drafted: tokens of the heads that trees kept, on average; None without trees.
        expected: what trees should have kept at this load, for each that was verified; None without trees.
    """

    steps: int
    mean: float | None
    stored: float | None
    accepted: Mapping[int, int]
    drafted: float | None = None
    expected: float | None = None

    @property
    def retrain(self) -> bool | None:
        """True: they gain less than half of what they did when trained; None where that cannot be told.

        Trees change in size with the load, down to none, so they are compared with what they should give at the same load.
        """
        if self.mean is None or self.stored is None or self.stored <= 1:
            return None
        if self.drafted is not None and self.expected is not None:
            return self.drafted < _WORTH_KEEPING * self.expected if self.expected else None
        return self.mean - 1 < _WORTH_KEEPING * (self.stored - 1)


def read_fit(exposition: str) -> Fit:
    """From the text of a service's `/metrics`.

    Raises:
        ValueError: the text is no exposition.
    """
    totals = dict.fromkeys((_SUM, _COUNT, _TREES, _TREE_TOKENS, _GRAFTED, _EXPECTED), 0.0)
    accepted: dict[int, int] = {}
    stored = None
    for family in text_string_to_metric_families(exposition):
        for sample in family.samples:
            if sample.name in totals:
                totals[sample.name] += sample.value
            elif sample.name == _STORED:
                stored = sample.value
            elif sample.name == _ACCEPTED and sample.value:
                depth = int(sample.labels["depth"])
                accepted[depth] = accepted.get(depth, 0) + int(sample.value)
    steps = int(totals[_COUNT])
    mean = totals[_SUM] / steps if steps else None
    drafted = expected = None
    if trees := totals[_TREES]:
        drafted = (totals[_TREE_TOKENS] - trees - totals[_GRAFTED]) / trees
        expected = totals[_EXPECTED] / trees
    return Fit(steps, mean, stored, dict(sorted(accepted.items())), drafted, expected)


def in_words(fit: Fit) -> str:
    """One paragraph for an operator."""
    if fit.mean is None:
        return "No step has been taken yet: call the service first."
    lines = [f"{fit.steps} steps yielded {fit.mean:.2f} tokens each."]
    if fit.accepted:
        kept = ", ".join(f"depth {depth}: {count / fit.steps:.1%}" for depth, count in fit.accepted.items())
        lines.append(f"Steps that kept a drafted token at {kept}.")
    if fit.stored is None:
        lines.append("The service runs without heads that keep a value to compare with.")
    elif fit.drafted is not None and fit.expected:
        lines.append(
            f"Trees kept {fit.drafted:.2f} tokens of the heads each, of {fit.expected:.2f} expected at this load."
        )
    else:
        lines.append(f"The heads yielded {fit.stored:.2f} where they were trained.")
    if fit.retrain is not None:
        verdict = "no longer fit this traffic: train them again on it" if fit.retrain else "fit this traffic"
        lines.append(f"They {verdict}.")
    return " ".join(lines)
