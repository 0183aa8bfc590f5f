"""Keeps the interpreter itself from stopping the event loop: no long garbage collections, no threads that hold on to it.

A full collection visits every object there is: 40 ms with the packages of the service, ten times that with an engine's,
and every call waits. What is there once the service is ready stays until it ends, so it is taken out of the collector's
sight; what calls leave behind is visited in larger portions, less often. A worker thread that computes in Python gives
the interpreter back after 5 ms by default, each time the event loop asks for it; a token has two.
"""

import gc
import sys

YOUNG_OBJECTS = 10_000
MIDDLE_EVERY = 20
FULL_EVERY = 50
SWITCH_S = 0.0005


def settle_interpreter() -> None:
    """Collect now, once and for all: call it when everything is loaded and before the first call.

    See the documentation of `gc.freeze`, `gc.set_threshold` and `sys.setswitchinterval`. A pass over so many young objects
    takes 3 to 12 ms, so it is as important that calls leave next to nothing for it (`service.task_group`,
    `service.keepalive`).
    """
    sys.setswitchinterval(SWITCH_S)
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, MIDDLE_EVERY, FULL_EVERY)
