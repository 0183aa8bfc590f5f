"""Networks in windows give what they give at once, whatever the windows; the windows are as they should be."""

from collections.abc import Iterator

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tts_adapter.voices.windows import Floats, Network, look_ahead, stream, windows


def convolution(kernel: int, hop: int) -> Network:
    """A network that weighs each frame with its neighbours, with zeros beyond the ends, and repeats it `hop` times."""
    context = kernel // 2

    def run(frames: Floats) -> Floats:
        padded = np.pad(frames, ((0, 0), (context, context)))
        weighed = sum((n + 1.5) * padded[:, n : n + frames.shape[1]] for n in range(kernel))
        # Not linear, and not the same at both of its channels.
        mixed = np.tanh(weighed * 0.1) + 0.1 * weighed[::-1]
        return np.asarray(np.repeat(mixed, hop, axis=1) + 0.01 * np.tile(np.arange(hop), frames.shape[1]), np.float32)

    return Network(run, hop, context)


networks = st.lists(st.builds(convolution, st.sampled_from([1, 3, 7, 13]), st.integers(1, 4)), min_size=1, max_size=4)


@given(networks, st.lists(st.integers(1, 30), min_size=1, max_size=8))
def test_windows_of_any_sizes_join_to_the_whole(chain: list[Network], sizes: list[int]) -> None:
    total = sum(sizes)
    frames = np.random.default_rng(total).standard_normal((2, total)).astype(np.float32)
    whole = frames
    for network in chain:
        whole = network.run(whole)
    joined = np.concatenate(list(stream([frames], chain, sizes)), axis=1)
    np.testing.assert_allclose(joined, whole, rtol=1e-5, atol=1e-5)


@given(networks, st.integers(1, 20), st.integers(1, 200))
def test_the_first_piece_comes_with_the_first_window(chain: list[Network], first: int, more: int) -> None:
    ahead = look_ahead(chain)
    total = first + ahead + first + more
    frames = np.ones((2, total), np.float32)
    pieces = list(stream([frames], chain, windows(total, ahead, first, 2.0, 100)))
    hop = int(np.prod([network.hop for network in chain]))
    assert len(pieces[0][0]) >= first * hop
    # A network waits for whole frames of its own, so what comes at once may be up to one frame per network more.
    assert len(pieces[0][0]) < (first + 1 + len(chain)) * hop


@given(networks, st.lists(st.integers(1, 30), min_size=1, max_size=8), st.lists(st.integers(1, 30), min_size=1))
def test_pieces_and_windows_need_not_match(chain: list[Network], sizes: list[int], cuts: list[int]) -> None:
    total = sum(sizes)
    frames = np.random.default_rng(total).standard_normal((2, total)).astype(np.float32)
    pieces = np.split(frames, [end for end in np.cumsum(cuts) if end < total], axis=1)
    for ours, theirs in zip(stream(pieces, chain, sizes), stream([frames], chain, sizes), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@given(st.integers(1, 5000), st.integers(0, 60), st.integers(1, 40), st.floats(1.0, 4.0), st.integers(40, 200))
def test_windows_are_all_of_it_in_growing_sizes(
    total: int, ahead: int, first: int, growth: float, largest: int
) -> None:
    sizes = windows(total, ahead, first, growth, largest)
    assert sum(sizes) == total
    assert all(size > 0 for size in sizes)
    assert sizes[0] == min(total, first + ahead)
    assert max(sizes[1:], default=0) <= largest
    assert sizes[1:-1] == sorted(sizes[1:-1])


def test_no_more_is_read_than_is_asked_for() -> None:
    read: list[int] = []

    def pieces() -> Iterator[Floats]:
        for number in range(10):
            read.append(number)
            yield np.ones((2, 10), np.float32)

    sound = stream(pieces(), [convolution(7, 1)], [25, 25, 50])
    assert read == []
    assert next(sound).shape == (2, 22)
    assert read == [0, 1, 2]


def test_a_network_is_given_its_context_and_no_more() -> None:
    seen: list[int] = []
    network = convolution(7, 2)

    def run(frames: Floats) -> Floats:
        seen.append(frames.shape[1])
        return network.run(frames)

    list(stream([np.ones((2, 40), np.float32)], [Network(run, 2, 3)], [10, 10, 20]))
    assert seen == [10, 3 + 10 + 3, 3 + 23]
