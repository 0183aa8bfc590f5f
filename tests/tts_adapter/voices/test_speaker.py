"""Utterances in turn, in virtual time: who is served when, and that each hears its own text, whole."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from tts_adapter.voices.process_frames import AUDIO, FAILED, FORGET, LAST, SAY, Frame
from tts_adapter.voices.silence import Floats
from tts_adapter.voices.speaker import FrameCutter, Speaker

RATE = 1000
PIECE_S = 0.2
COMPUTE_S = 0.1


class Clocked:
    """A model that says a word as one loud piece of 0.2 s, and takes 0.1 s for it."""

    sample_rate_hz = RATE

    def __init__(self) -> None:
        self.now = 100.0
        self.computed = 0

    def sentences(self, text: str) -> list[str]:
        return [sentence.strip() for sentence in text.split(".") if sentence.strip()]

    def audio(self, sentence: str) -> Iterator[Floats]:
        for word in sentence.split():
            if word == "broken":
                raise ValueError(word)
            self.now += COMPUTE_S
            self.computed += 1
            yield np.full(round(PIECE_S * RATE), 0.5, np.float32)


class Scene:
    """A speaker, and what it sent with the time."""

    def __init__(self, ahead_s: float = 1e9) -> None:
        self.model = Clocked()
        self.sent: list[tuple[float, Frame]] = []
        self.speaker = Speaker(self.model, 1.0, ahead_s, self._send, lambda: self.model.now)

    def _send(self, frame: Frame) -> None:
        self.sent.append((self.model.now, frame))

    def say(self, utterance: int, text: str, segment: int = 0) -> None:
        self.speaker.receive(Frame(SAY, utterance, segment, text.encode()))

    def speak(self, meanwhile: Callable[[], None] = lambda: None, pieces: int = 10_000) -> None:
        """As a process does: the next piece when it is due."""
        while (due := self.speaker.next_due()) is not None and pieces:
            self.model.now = max(self.model.now, due)
            self.speaker.speak_piece(meanwhile)
            pieces -= 1

    def samples(self, utterance: int) -> int:
        return sum(len(frame.payload) // 2 for _, frame in self.sent if frame.utterance == utterance)

    def first(self, utterance: int) -> float:
        return next(at for at, frame in self.sent if frame.utterance == utterance and frame.payload)


def test_a_segment_is_sent_whole_and_ends_once_with_sound() -> None:
    scene = Scene()
    scene.say(1, "one two three. four", 5)
    scene.speak()
    frames = [frame for _, frame in scene.sent]
    assert [frame.kind for frame in frames] == [AUDIO] * (len(frames) - 1) + [LAST]
    assert {frame.segment for frame in frames} == {5}
    assert frames[-1].payload
    assert max(len(frame.payload) for frame in frames) <= 2 * RATE // 10
    assert scene.samples(1) == round(4 * PIECE_S * RATE)


def test_text_without_sound_ends_with_an_empty_frame() -> None:
    scene = Scene()
    scene.say(1, "...")
    scene.speak()
    assert [frame for _, frame in scene.sent] == [Frame(LAST, 1, 0)]


def test_sound_leaves_before_the_sentence_is_computed() -> None:
    scene = Scene()
    scene.say(1, "one two three four five six")
    scene.speak(pieces=1)
    assert scene.samples(1) > 0
    assert scene.model.computed == 1


def test_a_reply_that_begins_waits_for_one_piece_of_another() -> None:
    scene = Scene()
    scene.say(1, "word " * 40)
    scene.speak(pieces=10)
    asked = scene.model.now
    scene.say(2, "yes indeed")
    scene.speak()
    assert scene.first(2) - asked <= COMPUTE_S
    assert scene.samples(1) == round(40 * PIECE_S * RATE)


def test_whoever_is_about_to_run_out_goes_first() -> None:
    scene = Scene()
    scene.say(1, "word " * 60)
    scene.speak(pieces=20)
    began = scene.samples(2)
    scene.say(2, "word " * 60)
    # The first is 2 s ahead of what is played, the second begins: it alone is served until it is as far ahead.
    scene.speak(pieces=9)
    assert scene.samples(1) == pytest.approx(20 * PIECE_S * RATE, abs=20)
    assert scene.samples(2) - began == pytest.approx(9 * PIECE_S * RATE, abs=20)
    # Then both are served alike.
    scene.speak(pieces=30)
    assert scene.samples(1) - scene.samples(2) == pytest.approx(20 * COMPUTE_S * RATE, abs=2 * PIECE_S * RATE)


def test_a_reply_far_ahead_waits_until_its_caller_has_heard_more() -> None:
    scene = Scene(ahead_s=1.0)
    scene.say(1, "word " * 40)
    scene.speak()
    began, played = scene.first(1), 0.0
    for at, frame in scene.sent:
        if frame.kind == AUDIO:
            played += len(frame.payload) / 2 / RATE
            assert played <= at - began + 1.0 + 2 * PIECE_S
            assert played >= at - began
    assert scene.sent[-1][0] - began == pytest.approx(40 * PIECE_S - 1.0, abs=2 * PIECE_S)


def test_what_waits_because_it_is_far_ahead_keeps_nobody_waiting() -> None:
    scene = Scene(ahead_s=1.0)
    scene.say(1, "word " * 40)
    while (due := scene.speaker.next_due()) is not None and due <= scene.model.now:
        scene.speaker.speak_piece(lambda: None)
    asked = scene.model.now
    scene.say(2, "yes indeed")
    scene.speak(pieces=1)
    assert scene.first(2) - asked <= COMPUTE_S


def test_nobody_starves_and_nothing_is_lost_among_many() -> None:
    scene = Scene()
    for utterance in range(1, 9):
        scene.say(utterance, "word " * (3 * utterance))
    scene.speak()
    assert [scene.samples(n) for n in range(1, 9)] == [round(3 * n * PIECE_S * RATE) for n in range(1, 9)]
    assert sorted(scene.first(n) for n in range(1, 9)) == [scene.first(n) for n in range(1, 9)]
    assert scene.first(8) <= 100.0 + 9 * COMPUTE_S


def test_a_cancel_stops_within_a_piece() -> None:
    scene = Scene()
    scene.say(1, "word " * 40)
    scene.speak(pieces=3)
    sent = scene.samples(1)
    scene.speak(lambda: scene.speaker.receive(Frame(FORGET, 1)))
    assert scene.model.computed == 4
    assert scene.samples(1) == sent
    assert scene.speaker.next_due() is None


def test_what_a_model_raises_ends_one_utterance() -> None:
    scene = Scene()
    scene.say(1, "one broken. three")
    scene.say(2, "one two three")
    scene.speak()
    failed = [frame for _, frame in scene.sent if frame.kind == FAILED]
    assert failed == [Frame(FAILED, 1, 0, b"ValueError")]
    assert scene.samples(2) == round(3 * PIECE_S * RATE)


@pytest.mark.parametrize("size", [1, 7, 160, 1000])
def test_frames_are_the_samples_however_these_came(size: int) -> None:
    cutter = FrameCutter(RATE, 0.5)
    samples = np.linspace(-1.0, 1.0, 1000, dtype=np.float32)
    payloads = [payload for at in range(0, 1000, size) for payload in cutter.push(samples[at : at + size])]
    last = cutter.finish()
    assert all(payloads)
    assert last
    joined = np.frombuffer(b"".join([*payloads, last]), "<i2")
    assert np.array_equal(joined, np.round(samples * 0.5 * 32767).astype(np.int16))
