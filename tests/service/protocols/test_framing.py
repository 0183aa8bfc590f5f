import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.protocols.events import AudioFormat
from service.protocols.framing import MAX_HELD_CHUNKS, RESTART_CHUNKS, ChunkOrder, FrameCutter


@given(pieces=st.lists(st.binary(max_size=400), max_size=20))
def test_whatever_comes_whole_frames_leave_and_nothing_is_lost(pieces: list[bytes]) -> None:
    cutter = FrameCutter(AudioFormat("mulaw", 8000))
    frames = [frame for piece in pieces for frame in cutter.push(piece)]
    whole = b"".join(pieces)
    assert all(len(frame) == 160 for frame in frames)
    rest = cutter.flush()
    assert b"".join(frames + rest)[: len(whole)] == whole
    assert all(len(frame) == 160 for frame in rest)
    assert cutter.flush() == []


@pytest.mark.parametrize(
    ("audio", "silence"),
    [
        (AudioFormat("mulaw", 8000), b"\xff"),
        (AudioFormat("alaw", 8000), b"\xd5"),
        (AudioFormat("pcm16", 16000), b"\x00"),
    ],
)
def test_the_last_frame_is_filled_with_the_formats_silence(audio: AudioFormat, silence: bytes) -> None:
    cutter = FrameCutter(audio)
    cutter.push(b"\x01\x02")
    assert cutter.flush() == [b"\x01\x02" + silence * (audio.frame_bytes - 2)]


def test_a_cut_reply_leaves_no_rest() -> None:
    cutter = FrameCutter(AudioFormat("mulaw", 8000))
    cutter.push(b"\x01")
    cutter.reset()
    assert cutter.flush() == []


def numbers(order: ChunkOrder, arriving: list[int]) -> list[int]:
    return [payload[0] for number in arriving for payload, _ in order.push(number, bytes([number % 256]), None)]


@given(st.permutations(range(1, 5)))
def test_chunks_within_the_hold_come_out_in_order(arriving: list[int]) -> None:
    assert numbers(ChunkOrder(), [0, *arriving]) == [0, 1, 2, 3, 4]


def test_a_missing_chunk_is_given_up_when_the_hold_is_full() -> None:
    assert numbers(ChunkOrder(), [0, *range(2, 2 + MAX_HELD_CHUNKS)]) == [0]
    assert numbers(ChunkOrder(), [0, *range(2, 4 + MAX_HELD_CHUNKS)]) == [0, *range(2, 4 + MAX_HELD_CHUNKS)]


def test_late_and_doubled_chunks_are_dropped() -> None:
    assert numbers(ChunkOrder(), [1, 2, 2, 1, 3, 3]) == [1, 2, 3]


def test_numbers_may_start_again() -> None:
    assert numbers(ChunkOrder(), [RESTART_CHUNKS + 9, 3, 4]) == [(RESTART_CHUNKS + 9) % 256, 3, 4]


@given(st.lists(st.integers(0, 2**53), max_size=40))
def test_any_numbers_keep_the_hold_bounded_and_the_order(arriving: list[int]) -> None:
    order = ChunkOrder()
    count = sum(len(order.push(number, b"\x00", None)) for number in arriving)
    assert count <= len(arriving)
    assert len(order._held) <= MAX_HELD_CHUNKS
