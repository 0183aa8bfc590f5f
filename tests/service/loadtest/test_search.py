from hypothesis import given
from hypothesis import strategies as st

from service.loadtest.search import Search


def run(search: Search, capacity: int) -> list[int]:
    tried: list[int] = []
    while (calls := search.proposal) is not None:
        tried.append(calls)
        assert len(tried) < 100
        search.record(calls, calls <= capacity)
    return tried


@given(st.integers(0, 600), st.integers(1, 50), st.integers(1, 500))
def test_finds_the_capacity(capacity: int, start: int, limit: int) -> None:
    search = Search(min(start, limit), limit)
    tried = run(search, capacity)
    assert max(tried) <= limit
    assert min(tried) >= 1
    right = min(capacity, limit)
    assert search.best <= right
    assert right - search.best <= max(1, search.best * 0.05)
    if right <= 20:
        assert search.best == right


def test_doubles_then_halves_and_repeats_a_failure() -> None:
    assert run(Search(10, 1000), 100) == [10, 20, 40, 80, 160, 160, 120, 120, 100, 110, 110, 105, 105]


def test_one_bad_moment_is_forgiven() -> None:
    search = Search(10, 20)
    search.record(10, False)
    assert search.proposal == 10
    search.record(10, True)
    assert search.proposal == 20
    assert search.best == 10
