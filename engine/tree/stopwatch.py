"""Seconds spent in a step and its parts. The engine core has no event loop whose clock could be read."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from engine.tree.tally import Tally


def now_s() -> float:
    """Seconds, monotonic."""
    return time.perf_counter()


@contextmanager
def timed(tally: Tally, name: str) -> Iterator[None]:
    """Add the time until the block ends to the count `name`."""
    begin = now_s()
    try:
        yield
    finally:
        tally.add(name, now_s() - begin)
