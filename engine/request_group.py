"""Requests to an engine that run at a time, as a group whose failure is the engine's own error."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from engine.api import EngineError


@asynccontextmanager
async def request_group() -> AsyncIterator[asyncio.TaskGroup]:
    """A task group; where the engine fails, one of its errors says what a group of them does.

    Raises:
        EngineError: a task raised one.
        ExceptionGroup: what else tasks raised.
    """
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except ExceptionGroup as failures:
        errors = failures.subgroup(EngineError)
        if errors is None:
            raise
        raise EngineError(str(errors.exceptions[0])) from failures
