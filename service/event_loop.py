"""The event loop of the service: uvloop with a clock fine enough for gaps of 20 ms."""

import time

import uvloop


class PreciseLoop(uvloop.Loop):
    """uvloop's own clock moves in whole milliseconds; here it is the same clock, unrounded."""

    # Seconds, monotonic. Not a method of ours: it is asked a dozen times for every token that leaves.
    time = staticmethod(time.monotonic)
