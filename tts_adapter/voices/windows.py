"""Convolutional networks over a stream: the same output in windows, each as soon as its context is there. Pure.

A network whose output at a frame depends on no frame further away than its context gives the same values for a window
with that context as for the whole. Each window is computed with it, and the output of the context is dropped. At the
two ends of the stream there is nothing before or after, as for the whole, so that the network's own padding applies.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Network:
    """One network.

    Attributes:
        run: from frames, float32 [channels, n], to float32 [channels, n * hop].
        hop: output frames per input frame.
        context: input frames on either side that an output frame depends on.
    """

    run: Callable[[Floats], Floats]
    hop: int
    context: int


class NetworkStream:
    """One network over one stream of frames."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._kept: Floats | None = None
        self._before = 0

    def feed(self, frames: Floats, *, last: bool) -> Floats | None:
        """Output for the frames whose context is there, [channels, n * hop]; all of them once `last` is true."""
        network = self._network
        kept = frames if self._kept is None else np.concatenate([self._kept, frames], axis=1)
        ready = kept.shape[1] - self._before - (0 if last else network.context)
        if ready <= 0:
            self._kept = kept
            return None
        end = self._before + ready
        output = network.run(kept if last else kept[:, : end + network.context])
        begin = self._before
        self._before = min(network.context, end)
        self._kept = kept[:, end - self._before :]
        return output[:, begin * network.hop : end * network.hop]


def look_ahead(networks: Sequence[Network]) -> int:
    """Input frames of the first network beyond a frame that its final output waits for."""
    rate, frames = 1, Fraction(0)
    for network in networks:
        frames += Fraction(network.context, rate)
        rate *= network.hop
    return ceil(frames)


def windows(total: int, ahead: int, first: int, growth: float, largest: int) -> list[int]:
    """How many of `total` frames to feed at a time.

    The first output is of `first` frames, so that sound begins early; each next one `growth` times as long up to
    `largest`, because every window costs its context once more.
    """
    sizes = []
    size, wanted, left = first + ahead, float(first), total
    while left > size:
        sizes.append(size)
        left -= size
        wanted = min(wanted * growth, largest)
        size = round(wanted)
    return [*sizes, left]


def stream(pieces: Iterable[Floats], networks: Sequence[Network], sizes: Sequence[int]) -> Iterator[Floats]:
    """The output of `networks`, one after the other, window by window. No more is read and computed than is asked for.

    Args:
        pieces: input of the first one, float32 [channels, n] each.
        networks: each reads what the one before it gives.
        sizes: of the windows; their sum is that of the pieces.
    """
    streams = [NetworkStream(network) for network in networks]
    for number, window in enumerate(_regrouped(pieces, sizes), start=1):
        output: Floats | None = window
        for one in streams:
            if output is not None:
                output = one.feed(output, last=number == len(sizes))
        if output is not None:
            yield output


def _regrouped(pieces: Iterable[Floats], sizes: Iterable[int]) -> Iterator[Floats]:
    source = iter(pieces)
    waiting: Floats | None = None
    for size in sizes:
        while waiting is None or waiting.shape[1] < size:
            piece = next(source)
            waiting = piece if waiting is None else np.concatenate([waiting, piece], axis=1)
        yield waiting[:, :size]
        waiting = waiting[:, size:]
