"""What followed when the text last said what it says now, against a search in plain Python."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.tree.lookup import LONGEST, SHORTEST, Continuation, continuation

# Few different tokens, so that runs do come again.
TEXTS = st.lists(st.integers(0, 2), max_size=60)


def searched(text: list[int], most: int) -> Continuation | None:
    for length in range(LONGEST, SHORTEST - 1, -1):
        for end in range(len(text) - 1, length - 1, -1):
            if text[end - length : end] == text[-length:]:
                return Continuation(text[end : end + most], length)
    return None


def found(text: list[int], most: int = 4) -> Continuation | None:
    return continuation(np.array(text, np.int32), most)


@given(TEXTS, st.integers(1, 8))
def test_it_is_the_latest_of_the_longest_runs(text: list[int], most: int) -> None:
    assert found(text, most) == searched(text, most)


def test_what_follows_a_quoted_run_is_found() -> None:
    prompt = [9, 1, 2, 3, 4, 5, 6, 7]
    assert found([*prompt, 8, 1, 2, 3]) == ([4, 5, 6, 7], 3)
    assert found([*prompt, 8, 1, 2, 3], most=2) == ([4, 5], 3)
    assert found([*prompt, 8, 1, 2, 3, 4]) == ([5, 6, 7, 8], 4)
    assert found([*prompt, 8, 2, 3]) is None
    # The later one wins, but a longer run wins over it.
    assert found([0, 1, 2, 3, 5, 7, 1, 2, 3, 6, 8, 1, 2, 3]) == ([6, 8, 1, 2], 3)
    assert found([0, 1, 2, 3, 5, 7, 1, 2, 3, 6, 0, 1, 2, 3]) == ([5, 7, 1, 2], 4)


def test_a_text_that_goes_round_follows_itself() -> None:
    assert found([5] * 9) == ([5], LONGEST)
    assert found([1, 2] * 4) == ([1, 2], LONGEST)
    assert found([5] * 3) is None
    assert found([]) is None
