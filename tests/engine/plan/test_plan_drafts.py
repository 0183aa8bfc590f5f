import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.plan.drafts import Draft, measured_draft_shares, usual_draft
from engine.plan.errors import PlanError
from engine.plan.models import find_model


@given(st.integers(1, 12), st.floats(0, 1))
def test_bursts_have_the_asked_mean_and_are_a_distribution(depth: int, part: float) -> None:
    draft = Draft("ngram", 1 + part * depth, depth=depth, nodes=depth)
    shares = draft.burst_shares()
    assert len(shares) == depth + 1
    assert min(shares) >= -1e-12
    assert sum(shares) == pytest.approx(1)
    mean = sum(size * share for size, share in enumerate(shares, start=1))
    assert mean == pytest.approx(draft.tokens_per_step, abs=1e-6)


def test_without_speculation_every_burst_is_one_token() -> None:
    assert Draft().burst_shares() == (1.0,)


def test_measured_acceptance_is_used_as_it_is() -> None:
    draft = usual_draft("medusa", measured_by_depth=measured_draft_shares([0.7, 0.4, 0.2, 0.1]))
    assert draft.tokens_per_step == pytest.approx(2.4)
    assert draft.burst_shares() == pytest.approx((0.3, 0.3, 0.2, 0.1, 0.1))


def test_usual_parts_follow_the_method() -> None:
    chain, tree = usual_draft("medusa"), usual_draft("medusa_tree")
    assert (chain.read, chain.depth, chain.nodes) == ("per_head", 4, 4)
    assert (tree.read, tree.depth, tree.nodes) == ("stacked", 4, 16)
    pair = usual_draft("draft_model", tokens_per_step=3.0, model=find_model("llama-3-8b"))
    assert (pair.read, pair.depth, pair.nodes) == (None, 5, 5)
    assert usual_draft("none") == Draft()


@pytest.mark.parametrize("shares", [[], [0.5, 0.6], [1.1], [-0.1], [float("nan")]])
def test_shares_that_cannot_be_are_refused(shares: list[float]) -> None:
    with pytest.raises(PlanError, match="acceptance"):
        measured_draft_shares(shares)


@pytest.mark.parametrize(
    ("make", "parameter"),
    [
        (lambda: usual_draft("ngram"), "tokens-per-step"),
        (lambda: usual_draft("medusa", tokens_per_step=0.5), "tokens-per-step"),
        (lambda: usual_draft("medusa", tokens_per_step=5.1), "tokens-per-step"),
        (lambda: usual_draft("medusa", tokens_per_step=float("nan")), "tokens-per-step"),
        (lambda: Draft(tokens_per_step=2.0), "tokens-per-step"),
        (lambda: usual_draft("medusa_tree", nodes=3), "nodes"),
        (lambda: usual_draft("medusa", depth=-1), "nodes"),
        (lambda: usual_draft("medusa", depth=3, measured_by_depth=(0.7, 0.4)), "depth"),
        (lambda: usual_draft("draft_model", tokens_per_step=2.0), "draft-model"),
        (lambda: usual_draft("medusa", model=find_model("llama-3-8b")), "draft-model"),
        (lambda: usual_draft("medusa", vocabulary=0), "draft-vocabulary"),
        (lambda: Draft("medusa", 2.0, 4, 4, read="twice"), "draft-read"),
        (lambda: Draft("telepathy", 2.0, 4, 4), "speculation"),
    ],
)
def test_parts_that_do_not_fit_are_refused_by_name(make, parameter: str) -> None:
    with pytest.raises(PlanError) as refused:
        make()
    assert refused.value.parameter == parameter
