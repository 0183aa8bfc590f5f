"""How long work takes on a GPU, without what launching it costs, and how fast that GPU moves bytes."""

import statistics
from collections.abc import Callable, Sequence

import torch

from engine.tree.stopwatch import now_s

_WINDOW_S = 0.03
_LEAST_REPLAYS = 3
_MOST_REPLAYS = 50


def per_call_us(calls: Sequence[Callable[[], object]], device: str) -> float:
    """Median microseconds of one call.

    On a GPU the calls are recorded into one CUDA graph, as an engine replays its steps, and the graph is timed. Elsewhere
    they are run once, which only shows that they can be.

    Args:
        calls: of the same work on different data, so that together they do not fit into the cache of the device.
        device: `cuda`, or anything else.
    """
    if device != "cuda":
        begin_s = now_s()
        calls[0]()
        return (now_s() - begin_s) * 1e6
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        calls[0]()
        calls[-1]()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    first_ms = _replay_ms(graph)
    replays = int(min(_MOST_REPLAYS, max(_LEAST_REPLAYS, _WINDOW_S * 1e3 / max(first_ms, 1e-3))))
    return statistics.median(_replay_ms(graph) for _ in range(replays)) * 1e3 / len(calls)


def _replay_ms(graph: torch.cuda.CUDAGraph) -> float:
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    graph.replay()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end))


def copy_bytes_per_s(device: str) -> float:
    """Bytes read and written per second by a copy far larger than any cache."""
    count = 2**30 if device == "cuda" else 2**22
    source = torch.ones(count, dtype=torch.int16, device=device)
    target = torch.empty_like(source)
    return 4 * count / (per_call_us([lambda: target.copy_(source)] * 2, device) * 1e-6)
