"""The event loop of the service: uvloop with a clock and timers fine enough for gaps of 20 ms."""

import asyncio
import contextvars
import ctypes
import heapq
import math
import os
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVarTuple

import uvloop

Ts = TypeVarTuple("Ts")

# <time.h> and <sys/timerfd.h> of Linux.
_CLOCK_MONOTONIC = 1
_TFD_TIMER_ABSTIME = 1
_TFD_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC
_FORGOTTEN = 64  # cancelled timers that may wait for their time before they are thrown out


class _TimerSpec(ctypes.Structure):
    """`struct itimerspec`: interval and time, each in seconds and nanoseconds."""

    _fields_ = tuple((name, ctypes.c_long) for name in ("interval_s", "interval_ns", "seconds", "nanoseconds"))


class _Timer(asyncio.TimerHandle):
    __slots__ = ()
    _scheduled: bool  # asyncio's own attribute: it waits in a heap


class PreciseLoop(uvloop.Loop):
    """uvloop's own clock and timers move in whole milliseconds; here the clock is the same one, unrounded.

    `call_at`, and with it `asyncio.timeout_at` and `service.alarm`, is never early and late by some hundredths of a
    millisecond where the loop is idle: one timer of the kernel (timerfd_create(2)) for all that wait. Where the system
    has none, it is late by up to two milliseconds. `call_later` is uvloop's own.
    """

    # Seconds, monotonic. Not a method of ours: it is asked a dozen times for every token that leaves.
    time = staticmethod(time.monotonic)

    def __init__(self) -> None:
        super().__init__()
        self._waiting: list[_Timer] = []
        self._forgotten = 0
        self._armed_for = math.inf
        self._spec = _TimerSpec()
        self._timer_fd = -1
        libc = ctypes.CDLL(None)
        if hasattr(libc, "timerfd_create"):
            self._timer_fd = libc.timerfd_create(_CLOCK_MONOTONIC, _TFD_FLAGS)
        if self._timer_fd >= 0:
            self._set_time = partial(
                libc.timerfd_settime, self._timer_fd, _TFD_TIMER_ABSTIME, ctypes.byref(self._spec), None
            )
            self.add_reader(self._timer_fd, self._run_due)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        """Call at `when` (loop time, seconds), not before."""
        if self._timer_fd < 0:
            # libuv counts from the last whole millisecond.
            delay_ms = math.ceil(when * 1000) - math.floor(self.time() * 1000)
            return super().call_later(delay_ms / 1000, callback, *args, context=context)
        timer = _Timer(when, callback, args, self, context)
        timer._scheduled = True
        heapq.heappush(self._waiting, timer)
        if when < self._armed_for:
            self._arm(when)
        return timer

    def close(self) -> None:
        """And the kernel's timer with it."""
        if self._timer_fd >= 0 and not self.is_closed():
            self.remove_reader(self._timer_fd)
            os.close(self._timer_fd)
            self._waiting.clear()
        super().close()

    def _timer_handle_cancelled(self, timer: _Timer) -> None:
        """asyncio's own hook, called by `TimerHandle.cancel`."""
        if not timer._scheduled:
            return
        self._forgotten += 1
        if self._forgotten > _FORGOTTEN and self._forgotten > len(self._waiting) // 2:
            self._waiting = [waiting for waiting in self._waiting if not waiting.cancelled()]
            heapq.heapify(self._waiting)
            self._forgotten = 0

    def _run_due(self) -> None:
        now = self.time()
        due: list[_Timer] = []
        while self._waiting and (self._waiting[0].when() <= now or self._waiting[0].cancelled()):
            timer = heapq.heappop(self._waiting)
            timer._scheduled = False
            if timer.cancelled():
                self._forgotten -= 1
            else:
                due.append(timer)
        self._arm(self._waiting[0].when() if self._waiting else math.inf)
        for timer in due:
            if not timer.cancelled():  # by one before it
                timer._run()

    def _arm(self, when: float) -> None:
        """Set the kernel's timer, which also takes back what it has told; never: it is stopped."""
        self._armed_for = when
        nanoseconds = 0 if when == math.inf else max(1, math.ceil(when * 1e9))
        self._spec.seconds, self._spec.nanoseconds = divmod(nanoseconds, 1_000_000_000)
        self._set_time()
