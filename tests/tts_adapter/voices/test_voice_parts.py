"""The pure parts of the voices: silence, frames, words, labels, marks; and the interruption of waits."""

import asyncio

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tts_adapter.voices.dialect import ChunkMarker, OneByOne, SpokenText, Words, fault_name
from tts_adapter.voices.interruption import Interrupted, Interruption
from tts_adapter.voices.process_frames import Frame, FrameDecoder
from tts_adapter.voices.segments import speakable
from tts_adapter.voices.silence import Floats, Trimmer, ends_sentence

RATE = 22_050


def sound(*parts: tuple[float, float]) -> Floats:
    """Seconds of a level, one after the other."""
    return np.concatenate([np.full(round(seconds * RATE), level, np.float32) for seconds, level in parts])


def trimmed(pieces: list[Floats], lead_s: float, tail_s: float) -> Floats:
    trimmer = Trimmer(RATE, lead_s=lead_s, tail_s=tail_s)
    return np.concatenate([*(trimmer.push(piece) for piece in pieces), trimmer.finish()])


def trimmed_at_once(samples: Floats, lead_s: float, tail_s: float) -> Floats:
    """What a look at the whole sound gives."""
    count = len(samples) // 220
    loud = [n for n in range(count) if np.sqrt(np.mean(np.square(samples[n * 220 : (n + 1) * 220]))) > 0.003]
    if not loud:
        return samples
    return samples[max(0, loud[0] - round(lead_s * 100)) * 220 : (loud[-1] + 1 + round(tail_s * 100)) * 220]


@pytest.mark.parametrize(("lead_s", "tail_s"), [(0.01, 0.3), (0.1, 0.08), (0.0, 0.0)])
def test_silence_is_cut_to_what_was_asked_for(lead_s: float, tail_s: float) -> None:
    result = trimmed([sound((0.5, 0.0005), (1.0, 0.2), (0.7, 0.0005))], lead_s, tail_s)
    loud = np.flatnonzero(np.abs(result) > 0.1)
    assert len(loud) == RATE
    assert loud[0] / RATE == pytest.approx(lead_s, abs=0.011)
    assert (len(result) - 1 - loud[-1]) / RATE == pytest.approx(tail_s, abs=0.011)


def test_short_silence_and_nothing_but_silence_stay() -> None:
    short = sound((0.02, 0.0005), (0.5, 0.2), (0.05, 0.0005))
    assert len(trimmed([short], 0.1, 0.3)) == len(short)
    silent = sound((0.3, 0.0005))
    assert len(trimmed([silent], 0.0, 0.0)) == len(silent)
    assert len(trimmed([silent[:0]], 0.0, 0.0)) == 0


levels = st.sampled_from([0.0, 0.0005, 0.0029, 0.0031, 0.2])
cuts = st.lists(st.integers(0, 5000), min_size=1, max_size=12)


@given(
    st.lists(st.tuples(st.floats(0.0, 0.3), levels), min_size=1, max_size=8),
    cuts,
    st.integers(0, 12),
    st.integers(0, 30),
)
def test_silence_is_cut_alike_however_sound_is_cut(
    parts: list[tuple[float, float]], sizes: list[int], lead: int, tail: int
) -> None:
    whole, pieces, at, turn = sound(*parts), [], 0, 0
    while at < len(whole):
        size = sizes[turn % len(sizes)] + (turn > 50)
        pieces.append(whole[at : at + size])
        at, turn = at + size, turn + 1
    expected = trimmed_at_once(whole, lead / 100, tail / 100)
    assert np.array_equal(trimmed(pieces, lead / 100, tail / 100), expected)


def test_sound_waits_only_while_it_may_be_the_silence_after() -> None:
    trimmer = Trimmer(RATE, lead_s=0.0, tail_s=0.1)
    assert len(trimmer.push(sound((0.5, 0.0005)))) == 0
    assert len(trimmer.push(sound((0.5, 0.2)))) == pytest.approx(0.5 * RATE, abs=RATE // 100)
    assert len(trimmer.push(sound((0.4, 0.0005)))) < round(0.15 * RATE)
    assert len(trimmer.push(sound((0.1, 0.2)))) > round(0.3 * RATE)


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("Yes.", True),
        ("Really?! ", True),
        ('He said "no."', True),
        ("(Fine.)\n", True),
        ("はい。", True),
        ("well,", False),
        ("and then", False),
        ("", False),
    ],
)
def test_a_pause_belongs_after_the_end_of_a_sentence(text: str, ends: bool) -> None:
    assert ends_sentence(text) is ends


@pytest.mark.parametrize(("text", "sounds"), [("a", True), ("7", True), ("日", True), ("…?!", False), (" ", False)])
def test_what_can_be_spoken(text: str, sounds: bool) -> None:
    assert speakable(text) is sounds


frames = st.builds(
    Frame,
    st.sampled_from([b"S", b"A", b"L"]),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32 - 1),
    st.binary(max_size=50),
)


@given(st.lists(frames, max_size=6), st.lists(st.integers(1, 40), min_size=1))
def test_frames_come_back_however_the_bytes_are_cut(sent: list[Frame], cuts: list[int]) -> None:
    data = b"".join(frame.encode() for frame in sent)
    decoder, received, at, turn = FrameDecoder(), [], 0, 0
    while at < len(data):
        size = cuts[turn % len(cuts)]
        received += decoder.feed(data[at : at + size])
        at, turn = at + size, turn + 1
    assert received == sent


def test_a_frame_of_absurd_length_is_refused() -> None:
    with pytest.raises(ValueError, match="4294967295 bytes"):
        list(FrameDecoder().feed(b"A" + b"\0" * 8 + b"\xff" * 4))


@given(st.lists(st.text(alphabet="ab .,\n", max_size=5), max_size=12))
def test_words_lose_nothing_and_are_cut_at_spaces_alone(tokens: list[str]) -> None:
    words = Words()
    sent = [parts for number, token in enumerate(tokens) if (parts := words.push(number, token))]
    joined = ["".join(text for _, text in parts) for parts in sent]
    assert all(text[-1].isspace() for text in joined)
    rest = words.finish()
    pieces = [piece for parts in [*sent, rest] for piece in parts]
    for number, token in enumerate(tokens):
        assert "".join(text for segment, text in pieces if segment == number) == token


@given(st.lists(st.integers(1, 6), min_size=1, max_size=6), st.lists(st.integers(1, 7), min_size=1))
def test_audio_is_cut_where_segments_begin(lengths: list[int], messages: list[int]) -> None:
    spoken = SpokenText()
    for segment, length in enumerate(lengths):
        spoken.sent(segment, length)
    heard = dict.fromkeys(range(len(lengths)), 0)
    left, turn = sum(lengths), 0
    while left:
        count = min(left, messages[turn % len(messages)])
        samples = np.zeros(count * 10, np.int16)
        for segment, part in spoken.cut(samples, 1000, [n * 10.0 for n in range(count)]):
            heard[segment] += len(part)
        left, turn = left - count, turn + 1
    assert heard == {segment: length * 10 for segment, length in enumerate(lengths)}


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 400)), max_size=12))
def test_every_heard_segment_ends_with_one_mark_and_no_sample_is_lost(pushes: list[tuple[int, int]]) -> None:
    marker, segment, chunks, total = ChunkMarker(5, 1000), 0, [], 0
    for step, count in pushes:
        segment += step
        total += count
        chunks += marker.push(segment, np.arange(count, dtype=np.int16))
    chunks += marker.finish()
    assert sum(len(chunk.samples) for chunk in chunks) == total
    assert all(0 < len(chunk.samples) <= 100 for chunk in chunks)
    for number in {chunk.segment for chunk in chunks}:
        marks = [chunk.last for chunk in chunks if chunk.segment == number]
        assert marks == [False] * (len(marks) - 1) + [True]


def test_one_by_one_waits_for_the_end_of_each_and_then_sends_what_waits_as_one() -> None:
    segments = OneByOne(singles=2)
    assert segments.push(0, "a") == "a"
    assert segments.push(1, "...") is None
    assert [segments.push(number, text) for number, text in ((2, "b"), (3, "c "), (4, "d"))] == [None] * 3
    assert segments.ended() == "b"
    assert segments.segment == 2
    assert segments.ended() == "c d"
    assert segments.segment == 3
    assert not segments.spoken
    assert segments.ended() is None
    assert segments.spoken


def test_a_fault_shows_its_name_and_never_a_sentence() -> None:
    assert fault_name("quota_exceeded", 1008) == "quota_exceeded, code 1008"
    assert fault_name("cannot say: my secret") == "error"
    assert fault_name(None) == "error"
    assert fault_name("") == "error"


def test_an_interruption_ends_present_and_later_waits() -> None:
    async def scenario() -> None:
        interruption = Interruption()
        ended = []

        async def wait() -> None:
            try:
                await interruption.wait(asyncio.Event().wait())  # type: ignore[arg-type]
            except Interrupted:
                ended.append(True)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(wait())
            tasks.create_task(wait())
            await asyncio.sleep(0)
            interruption.set()
            interruption.set()
        await wait()
        assert ended == [True] * 3

    asyncio.run(scenario())


def test_an_interruption_leaves_the_cancelling_of_a_task_alone() -> None:
    async def scenario() -> None:
        interruption = Interruption()
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(interruption.wait(asyncio.Event().wait()))  # type: ignore[arg-type]
            await asyncio.sleep(0)
            task.cancel()
        assert task.cancelled()
        with pytest.raises(TimeoutError):
            await interruption.wait(asyncio.Event().wait(), 0.001)  # type: ignore[arg-type]

    asyncio.run(scenario())
