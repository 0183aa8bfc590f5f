"""Timers of the service's event loop, on the real clock: some milliseconds in all."""

import asyncio
import os

import pytest

from service.alarm import Alarm
from service.event_loop import PreciseLoop


@pytest.fixture
def loop() -> PreciseLoop:
    return PreciseLoop()


def test_timers_run_in_order_and_never_early(loop: PreciseLoop) -> None:
    async def main() -> list[tuple[float, float]]:
        begun, done = loop.time(), asyncio.Event()
        seen: list[tuple[float, float]] = []

        def note(due: float) -> None:
            seen.append((due, loop.time()))

        for delay_s in (0.0031, 0.0004, 0.0023, 0.0, -1.0):
            loop.call_at(begun + delay_s, note, begun + delay_s)
        loop.call_at(begun + 0.004, done.set)
        await done.wait()
        return seen

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        seen = runner.run(main())
    assert len(seen) == 5
    assert [due for due, _ in seen] == sorted(due for due, _ in seen)
    assert all(due <= at for due, at in seen)


def test_a_cancelled_timer_never_runs_and_many_are_thrown_out(loop: PreciseLoop) -> None:
    async def main() -> None:
        ran: list[str] = []
        first = loop.call_at(loop.time() + 0.001, ran.append, "first")
        by_another = loop.call_at(loop.time() + 0.0015, ran.append, "by another")
        loop.call_at(loop.time() + 0.001, by_another.cancel)
        for _ in range(1000):
            loop.call_at(loop.time() + 100, ran.append, "never").cancel()
        assert len(loop._waiting) < 200
        first.cancel()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.003):
                await asyncio.Event().wait()
        assert ran == []

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(main())


def test_a_callback_that_fails_leaves_the_others_alone(loop: PreciseLoop) -> None:
    async def main() -> str:
        told: list[str] = []
        loop.set_exception_handler(lambda _, context: told.append(str(context["exception"])))
        done = asyncio.Event()
        now = loop.time()
        loop.call_at(now, lambda: int("nonsense"))
        loop.call_at(now, done.set)
        await done.wait()
        return told[0]

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        assert "nonsense" in runner.run(main())


def test_without_a_timer_of_the_kernel_it_is_late_but_never_early(loop: PreciseLoop) -> None:
    async def main() -> None:
        loop.remove_reader(loop._timer_fd)
        os.close(loop._timer_fd)
        loop._timer_fd = -1
        for fraction in range(90):
            done = asyncio.Event()
            due = loop.time() + 0.0011 + 0.00001 * fraction
            loop.call_at(due, done.set)
            await done.wait()
            assert loop.time() >= due

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(main())


def test_an_alarm_sleeps_no_less_than_it_was_told(loop: PreciseLoop) -> None:
    async def main() -> None:
        alarm = Alarm()
        for delay_s in (0.0013, 0.0002, -1.0):
            when = loop.time() + delay_s
            await alarm.wait_until(when)
            assert loop.time() >= when

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(main())


def test_closing_gives_the_timer_back() -> None:
    open_before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with asyncio.Runner(loop_factory=PreciseLoop) as runner:
            runner.run(asyncio.sleep(0))
    assert len(os.listdir("/proc/self/fd")) <= open_before
