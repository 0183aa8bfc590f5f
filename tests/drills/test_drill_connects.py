"""Thousands of calls come and go, a tenth of them cut in the middle of a turn: nothing of them stays behind."""

import asyncio
import itertools
import json

import pytest
from websockets.asyncio.client import connect

from tests.drills.calling import Told, say, started, take
from tests.drills.served import SCRIPTED, Served, served

pytestmark = [pytest.mark.prove, pytest.mark.alone]

SHORT = {"conversation.max_reply_tokens": "4", "server.max_waiting_calls": "0"}


async def one(service: Served, number: int, ends: dict[str, int]) -> None:
    """One call; every tenth vanishes after its first token, without a close."""
    bridge = await connect(service.voice_url, open_timeout=120, ping_interval=None, compression=None, proxy=None)
    await started(bridge, call_id=f"drill-{number}")
    await say(bridge, "hello")
    if number % 10 == 0:
        await take(bridge, Told(), until="token")
        bridge.transport.abort()
        await bridge.wait_closed()
        ends["cut"] = ends.get("cut", 0) + 1
        return
    told = await take(bridge, Told())
    ends[told.reason] = ends.get(told.reason, 0) + 1
    await bridge.send(json.dumps({"type": "end"}))
    await bridge.close()


async def many(service: Served, count: int, at_a_time: int) -> dict[str, int]:
    """`count` calls, `at_a_time` at once; how many ended in which way."""
    ends: dict[str, int] = {}
    numbers = iter(range(count))

    async def caller() -> None:
        for number in numbers:
            async with asyncio.timeout(120):
                await one(service, number, ends)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(at_a_time):
            tasks.create_task(caller())
    return ends


def everything_given_back(service: Served, count: int, at_a_time: int) -> None:
    # What is made once and kept (threads, caches) is made by the first calls.
    asyncio.run(many(service, 4 * at_a_time, at_a_time))
    service.until(lambda: service.metric("voicepace_calls") == 0, 30)
    service.until(lambda: service.metric("voicepace_engine_requests") == 0, 30)
    before = settled(service)
    assert before["voicepace_calls"] == before["voicepace_engine_requests"] == 0
    ends = asyncio.run(many(service, count, at_a_time))
    assert sum(ends.values()) == count
    assert ends["cut"] == count // 10
    assert set(ends) <= {"cut", "stop", "length"}
    service.until(lambda: service.leftovers() == before, 60)
    assert service.metric("voicepace_calls_refused_total") == 0
    assert "drill-" not in service.said


def settled(service: Served) -> dict[str, float]:
    """What it holds once that has been the same five times in a row."""
    seen = [service.leftovers()]
    for _ in itertools.repeat(None, 600):
        seen = [*seen[-4:], service.leftovers()]
        if len(seen) == 5 and all(one == seen[0] for one in seen):
            break
    return seen[-1]


@pytest.mark.timeout(1200)
def test_twelve_thousand_calls_of_the_scripted_engine_leave_nothing() -> None:
    quick = {"scripted.first_token_ms": "5", "scripted.step_time_ms": "5", "server.max_calls": "200"}
    with served({**SCRIPTED, **SHORT, **quick}) as service:
        everything_given_back(service, 12_000, 100)


@pytest.mark.engine
@pytest.mark.timeout(600)
def test_five_hundred_calls_of_the_real_engine_leave_nothing() -> None:
    with served({**SHORT, "voice.names": "[]", "server.max_calls": "32"}) as service:
        everything_given_back(service, 500, 16)
        assert service.metric("vllm:num_requests_running") == 0
        assert service.metric("vllm:num_requests_waiting") == 0
