"""One service with the real engine and voice, shared by the drills that leave it as it was."""

from collections.abc import Iterator

import pytest

from tests.drills.served import Served, served


@pytest.fixture(scope="session")
def real_service_process() -> Iterator[Served]:
    """`voicepace serve` with the profile `cpu-demo` and nothing else."""
    with served({}) as service:
        yield service
