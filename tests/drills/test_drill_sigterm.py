"""SIGTERM under load: turns under way end as they would have, new calls are refused, and the exit is in order."""

import asyncio
import signal

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from tests.drills.calling import Told, call, say, take
from tests.drills.served import SCRIPTED, Served, exists, served

pytestmark = [pytest.mark.prove, pytest.mark.alone]


async def refusal(service: Served) -> tuple[int, str]:
    with pytest.raises(InvalidStatus) as refused:
        await connect(service.voice_url, open_timeout=60)
    response = refused.value.response
    return response.status_code, (response.body or b"").decode().strip()


async def stopped_in_mid_turn(service: Served, calls: int) -> list[Told]:
    """SIGTERM once every call has had the first token of its reply; what each was told until its turn's end."""
    all_speaking = asyncio.Barrier(calls + 1)

    async def caller() -> Told:
        async with call(service.voice_url) as bridge:
            await say(bridge, "Tell me what you can do.")
            told = await take(bridge, Told(), until="token")
            await all_speaking.wait()
            return await take(bridge, told)

    async with asyncio.timeout(200), asyncio.TaskGroup() as tasks:
        callers = [tasks.create_task(caller()) for _ in range(calls)]
        await all_speaking.wait()
        service.process.send_signal(signal.SIGTERM)
        await asyncio.to_thread(service.until, lambda: service.ready() == 503, 30)
        assert await refusal(service) == (503, "draining")
    return [task.result() for task in callers]


def in_order(service: Served, calls: int) -> None:
    told = asyncio.run(stopped_in_mid_turn(service, calls))
    assert {one.reason for one in told} <= {"stop", "length"}
    assert len({one.text for one in told}) == 1  # the same question, the same whole answer
    assert [error for one in told for error in one.errors] == []
    assert service.process.wait(60) == 0
    assert "Traceback" not in service.said


def test_a_hundred_calls_of_the_scripted_engine_end_in_order() -> None:
    slowly = {"scripted.step_time_ms": "300", "scripted.burst_sizes": "[1]"}
    with served({**SCRIPTED, **slowly, "server.max_calls": "100", "server.drain_s": "120"}) as service:
        in_order(service, 100)


@pytest.mark.engine
def test_eight_calls_of_the_real_engine_end_in_order_and_leave_no_process() -> None:
    settings = {"server.drain_s": "180", "conversation.max_reply_tokens": "80"}
    with served(settings) as service:
        children = service.children()
        in_order(service, 8)
        assert len(children) >= 2  # the engine core and the voice
        service.until(lambda: not any(map(exists, children)), 20)
