import asyncio

import pytest

from engine.api import EngineDead, EngineError
from engine.request_group import request_group


async def fail(error: Exception) -> None:
    raise error


async def grouped(*errors: Exception) -> None:
    async with request_group() as group:
        for error in errors:
            group.create_task(fail(error), name="fail")


def test_the_engines_error_comes_alone() -> None:
    with pytest.raises(EngineError, match="the engine has gone"):
        asyncio.run(grouped(EngineDead("the engine has gone"), EngineDead("the engine has gone")))


def test_other_errors_stay_a_group() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(grouped(KeyError("x")))
    assert isinstance(caught.value.exceptions[0], KeyError)


def test_without_a_failure_nothing_is_raised() -> None:
    asyncio.run(grouped())
