"""A service with the real engine and voice, one for each module of drills that wants it."""

from collections.abc import Iterator

import pytest

from tests.drills.served import Served, served


@pytest.fixture(scope="module")
def real_service_process() -> Iterator[Served]:
    """`voicepace serve` with the profile `cpu-demo` and nothing else."""
    with served({}) as service:
        yield service
