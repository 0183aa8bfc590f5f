"""Published measurements, and what the plan says of each.

The voice article's L4 pair is compared with the floor (efficiency 1, draft reads nothing) and printed beside rows that
count what a real step reads. vLLM pull request 4978's H100 table tests the shape step = a + b · batch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.plan.calibration import fit_line
from engine.plan.devices import find_device
from engine.plan.drafts import Draft, DraftRead
from engine.plan.models import find_model
from engine.plan.roofline import Setup, step_cost

# Llama-3-8B in bf16 on one L4, multi-turn dialogue: mean TIT in ms without speculation, and with four Medusa heads.
L4_PLAIN_MS = 44.6
L4_MEDUSA_MS = 16.1
# Quotient of the two, and within the article's 2.4 to 2.8 tokens per pass.
L4_TOKENS_PER_STEP = 2.77

# Total tokens per second on MT-bench by concurrency, one H100, temperature 0, vLLM pull request 4978.
H100_TOKENS_PER_S: Mapping[str, Mapping[int, float]] = {
    "Mistral-7B-Instruct-v0.2": {
        1: 128.73, 2: 245.14, 4: 453.78, 8: 792.05, 16: 1262.11, 32: 1862.19, 64: 2425.03,
    },
    "Llama-3-8B-Instruct": {
        1: 121.27, 2: 235.47, 4: 429.29, 8: 760.38, 16: 1258.82, 32: 1796.47, 64: 2275.64,
    },
    "Mistral-7B-Instruct-v0.2 with Medusa": {
        1: 155.06, 2: 293.14, 4: 550.85, 8: 911.77, 16: 1318.1, 32: 1681.17, 64: 1769.62,
    },
    "Llama-3-8B-Instruct with Medusa": {
        1: 141.33, 2: 269.09, 4: 490.86, 8: 830.04, 16: 1156.08, 32: 1445.23, 64: 1533.34,
    },
}  # fmt: skip
FITTED_ON = (1, 64)


@dataclass(frozen=True, slots=True)
class Compared:
    """One predicted figure; `published` is None for rows that only stand beside.

    Attributes:
        what: the row in words.
        predicted_ms, published_ms: times per token.
    """

    what: str
    predicted_ms: float
    published_ms: float | None = None

    @property
    def error(self) -> float | None:
        """(predicted - published) ÷ published."""
        return None if self.published_ms is None else self.predicted_ms / self.published_ms - 1


def l4_pair() -> list[Compared]:
    """The published pair at the floor, then the rows that count what such a step reads."""
    device, model = find_device("L4"), find_model("llama-3-8b")

    def tit_ms(draft: Draft, efficiency: float, weights: str = "bf16") -> float:
        setup = Setup(device, model, draft, weights, bandwidth_efficiency=efficiency)
        return 1000 * step_cost(setup, 1).step_s / draft.tokens_per_step

    def heads(read: DraftRead) -> Draft:
        return Draft("medusa", L4_TOKENS_PER_STEP, depth=4, nodes=4, read=read)

    floor_ms = 1000 * model.read_bytes("bf16") / device.bandwidth_bytes_per_s
    return [
        Compared("plain, efficiency 1", tit_ms(Draft(), 1.0), L4_PLAIN_MS),
        Compared("Medusa, efficiency 1, draft reads nothing", tit_ms(heads("none"), 1.0), L4_MEDUSA_MS),
        Compared("bf16 weights over peak bandwidth, nothing else: the floor of a plain step", floor_ms),
        Compared("plain, efficiency 0.9", tit_ms(Draft(), 0.9)),
        Compared("Medusa, efficiency 1, vocabulary matrix read once", tit_ms(heads("stacked"), 1.0)),
        Compared("Medusa, efficiency 1, vocabulary matrix read per head", tit_ms(heads("per_head"), 1.0)),
        Compared("Medusa, efficiency 0.9, vocabulary matrix read once", tit_ms(heads("stacked"), 0.9)),
        Compared("Medusa, efficiency 0.9, vocabulary matrix read per head", tit_ms(heads("per_head"), 0.9)),
        Compared(
            "fp8 weights, Medusa, efficiency 0.9, vocabulary matrix read once", tit_ms(heads("stacked"), 0.9, "fp8")
        ),
    ]


def l4_verdict(rows: Sequence[Compared]) -> str:
    """What the honest rows mean, from their figures."""
    by_name = {row.what: row.predicted_ms for row in rows}
    floor_ms = next(value for name, value in by_name.items() if "floor" in name)
    per_head_ms = by_name["Medusa, efficiency 1, vocabulary matrix read per head"]
    needed = per_head_ms * L4_TOKENS_PER_STEP / L4_MEDUSA_MS
    plain = "under" if floor_ms > L4_PLAIN_MS else "not under"
    medusa = "impossible" if per_head_ms > L4_MEDUSA_MS else "possible"
    return (
        f"The published {L4_PLAIN_MS} ms is {plain} the {floor_ms:.1f} ms that reading the bf16 weights once takes at "
        f"the L4's peak bandwidth. With heads that each read the vocabulary matrix, {L4_MEDUSA_MS} ms is {medusa} at "
        f"{L4_TOKENS_PER_STEP} tokens per step: {per_head_ms:.1f} ms at best; it would take {needed:.1f}."
    )


def h100_rows(name: str) -> dict[int, Compared]:
    """Time per token of one call by concurrency: the line through `FITTED_ON` against the table.

    Without speculation that is the step time. With it, it is step time ÷ acceptance, which need not be a line.
    """
    table = H100_TOKENS_PER_S[name]
    measured_s = {concurrency: concurrency / rate for concurrency, rate in table.items()}
    line = fit_line({concurrency: measured_s[concurrency] for concurrency in FITTED_ON})
    return {
        concurrency: Compared(f"concurrency {concurrency}", 1000 * line.at(concurrency), 1000 * seconds)
        for concurrency, seconds in measured_s.items()
    }


def h100_roofline() -> list[Compared]:
    """One call without speculation by the plan's own defaults for an H100 SXM, beside the table.

    The table does not say which H100 it was; its step also holds the overhead of vLLM in 2024.
    """
    device, rows = find_device("H100"), []
    for name, short in (("Mistral-7B-Instruct-v0.2", "mistral-7b"), ("Llama-3-8B-Instruct", "llama-3-8b")):
        predicted_ms = 1000 * step_cost(Setup(device, find_model(short)), 1).step_s
        rows.append(Compared(f"{name}, concurrency 1", predicted_ms, 1000 / H100_TOKENS_PER_S[name][1]))
    return rows


def comparison_text() -> str:
    """Both comparisons, readable."""
    pair = l4_pair()
    lines = ["Llama-3-8B on one L4, ms per token (published / plan / error)", *map(_line, pair), l4_verdict(pair), ""]
    lines.append(f"vLLM PR 4978, one H100: line through concurrency {FITTED_ON[0]} and {FITTED_ON[1]}, ms per token")
    for name in H100_TOKENS_PER_S:
        lines += [f"  {name}", *(_line(row) for at, row in h100_rows(name).items() if at not in FITTED_ON)]
    lines.append("the same table beside the roofline of an H100 SXM with default efficiency and overhead")
    lines += map(_line, h100_roofline())
    return "\n".join(lines)


def comparison_json() -> dict[str, object]:
    """Both comparisons as figures."""
    pair = l4_pair()
    return {
        "l4": [_fields(row) for row in pair],
        "l4_verdict": l4_verdict(pair),
        "h100_roofline": [_fields(row) for row in h100_roofline()],
        "h100": {
            name: [_fields(row) for at, row in h100_rows(name).items() if at not in FITTED_ON]
            for name in H100_TOKENS_PER_S
        },
    }


def _fields(row: Compared) -> dict[str, object]:
    return {"what": row.what, "predicted_ms": row.predicted_ms, "published_ms": row.published_ms, "error": row.error}


def _line(row: Compared) -> str:
    if row.published_ms is None or row.error is None:
        return f"    {'':>6}  {row.predicted_ms:6.2f}  {'':>7}  {row.what}"
    return f"    {row.published_ms:6.2f}  {row.predicted_ms:6.2f}  {row.error:+7.1%}  {row.what}"
