"""The alarm: never early, woken by a ring, and a ring is not lost."""

import asyncio

from service.alarm import Alarm
from tests.virtual_time import run_virtual


def test_it_sleeps_until_the_time_and_never_less() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        alarm = Alarm()
        for delay_s in (0.0181, 0.5, 0.0001, 0.0):
            when = loop.time() + delay_s
            await alarm.wait_until(when)
            assert when <= loop.time() <= when + 0.0011

    run_virtual(main())


def test_a_ring_wakes_the_sleeper_and_one_before_is_kept() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        alarm = Alarm()
        loop.call_later(0.01, alarm.ring)
        started = loop.time()
        await alarm.wait_until(None)
        assert loop.time() - started < 0.02
        alarm.ring()
        await alarm.wait_until(None)
        alarm.ring()
        alarm.ring()
        await alarm.wait_until(loop.time() + 5)
        assert loop.time() - started < 0.02

    run_virtual(main())


def test_a_cancelled_sleeper_leaves_no_timer() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        alarm = Alarm()
        async with asyncio.TaskGroup() as tasks:
            sleeper = tasks.create_task(alarm.wait_until(loop.time() + 100))
            await asyncio.sleep(0.01)
            sleeper.cancel()
        await alarm.wait_until(loop.time() + 0.01)

    run_virtual(main())
