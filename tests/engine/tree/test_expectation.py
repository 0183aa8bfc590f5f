"""What is expected of drafts with the shipped heads, and without any."""

import pytest

from engine.options import EngineOptions
from engine.tree.expectation import expected_acceptance_length


def test_larger_trees_promise_more_and_a_chain_of_independent_heads_less() -> None:
    def expected(**settings: object) -> float:
        found = expected_acceptance_length(EngineOptions.model_validate(settings))
        assert found is not None
        return found

    chain = expected(speculation="medusa")
    trees = [expected(speculation="medusa_tree", tree=str(nodes)) for nodes in (1, 8, 16, 32)]
    assert trees == sorted(trees)
    assert 1.2 < chain < trees[1]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"speculation": "ngram"},
        {"speculation": "medusa", "model": "x", "heads": "someone/heads"},
        {"speculation": "medusa_tree", "model": "x", "heads": "./none"},
    ],
)
def test_without_heads_of_ours_nothing_is_expected(settings: dict[str, object]) -> None:
    assert expected_acceptance_length(EngineOptions.model_validate(settings)) is None
