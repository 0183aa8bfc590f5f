"""Segments join to the text, end where speech pauses, and never wait without limit."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tts_adapter.options import SegmentOptions
from tts_adapter.segmenter import Segment, Segmenter
from tts_adapter.speakable import is_speakable

LEAD = "Well then my friend, "


def tokens_of(text: str) -> list[str]:
    return re.findall(r"\s?\S+|\s", text)


def spoken(
    pieces: list[str], gap_s: float = 0.02, options: SegmentOptions | None = None
) -> list[tuple[float, Segment]]:
    """Segments with the time each left, the pieces arriving `gap_s` apart; `finish` comes with the last piece."""
    segmenter = Segmenter(options)
    now = 0.0
    out: list[tuple[float, Segment]] = []
    for piece in pieces:
        while (wakeup := segmenter.next_wakeup()) is not None and wakeup < now:
            due = segmenter.due(wakeup)
            assert due
            out += [(wakeup, segment) for segment in due]
        out += [(now, segment) for segment in segmenter.push(piece, now)]
        now += gap_s
    return out + [(now, segment) for segment in segmenter.finish(now)]


def texts(pieces: list[str], gap_s: float = 0.02) -> list[str]:
    return [segment.text for _, segment in spoken(pieces, gap_s)]


SENTENCES = [
    ("It costs $3.14. ", "Shall I order it?"),
    ("It was founded in 1987. ", "Then it grew."),
    ("That is 1,250.00 dollars. ", "Fine."),
    ("Use Python 3.11.7. ", "It works with v2.0.1 too."),
    ("We open at 9 a.m. on Monday. ", "We close at 5 p.m. ", "See you."),
    ("Dr. Smith will see you. ", "Mr. J. K. Brown left."),
    ("Go to www.Example.com/help.html. ", "Then log in."),
    ("Write to bob.lee@Mail.Example.org. ", "We answer soon."),
    ("We use ASP.NET and Node.JS here. ", "They work."),
    ('She said "I am done." ', "Then she left."),
    ("It is open (as of today.) ", "Come in."),
    ("Well... let me see. ", "Okay… ", "I found it."),
    ("मैं ठीक हूँ। ", "आप कैसे हैं?"),
    ("你好。", "今天天气很好！", "你呢？"),
    ("كيف حالك؟ ", "أنا بخير. ", "شكرا."),
    ("آپ کیسے ہیں؟ ", "میں ٹھیک ہوں۔ ", "شکریہ۔"),
    ("1. Open the door. ", "2. Walk in. ", "3. Sit."),
    ("1. Open the door\n", "2. Walk in\n", "3. Sit"),
    ("We sell e.g. apples, pears, etc. ", "They are fresh."),
    ("Acme Inc. makes it. ", "Meet at St. Mary's on Oct. 5th."),
    ("The U.S. Senate met today.",),
    ("He lives in the U.S. ", "He likes it."),
    ("It takes approx. 5 minutes to cook.",),
    ("Your number is No. 5. Please wait.",),
    ("Use 192.168.1.1. ", "It is the router."),
    ("Meet at 10.30 on 12.05.2026. ", "Be there."),
    ("Is 3 < 5? ", "Yes."),
    ("12345. ", "Let me check."),
    ("one.", "Sentence two is here."),
    ("Really?! ", "Yes!"),
]


@pytest.mark.parametrize("sentences", SENTENCES, ids=lambda sentences: sentences[0].strip())
def test_sentences_end_where_speech_would_pause(sentences: tuple[str, ...]) -> None:
    assert texts(tokens_of(LEAD + "".join(sentences)), gap_s=0.002) == [LEAD, *sentences]


@pytest.mark.parametrize("sentences", SENTENCES, ids=lambda sentences: sentences[0].strip())
@pytest.mark.parametrize("size", [1, 3])
def test_cutting_the_input_anywhere_does_not_split_a_word_or_number(sentences: tuple[str, ...], size: int) -> None:
    text = LEAD + "".join(sentences)
    parts = texts([text[at : at + size] for at in range(0, len(text), size)], gap_s=0.002)
    assert "".join(parts) == text
    for before, after in zip(parts, parts[1:], strict=False):
        glued = before[-1].isalnum() and after[0].isalnum()
        assert not glued, (before, after)
        assert not re.search(r"\d[.,:]$", before) or not after[0].isdigit()


PIECES = st.lists(
    st.sampled_from(
        [
            *[
                "Hello",
                " there",
                ".",
                ". ",
                "!",
                " ",
                "\n",
                ",",
                ", ",
                " 3",
                ".14",
                "$",
                " Dr.",
                " e.g.",
                "…",
                "?",
                '"',
            ],
            *[
                " (",
                ")",
                "你好",
                "。",
                "，",
                "ก",
                "नमस्ते",
                "।",
                " www.x",
                ".org",
                "-",
                " a",
                "supercalifragilistic" * 9,
                "😀",
            ],
        ]
    ),
    max_size=40,
)


@settings(max_examples=300, deadline=None)
@given(PIECES, st.lists(st.floats(0, 2), min_size=40, max_size=40))
def test_segments_join_to_the_text_and_each_has_something_to_say(pieces: list[str], gaps: list[float]) -> None:
    segmenter = Segmenter()
    now = 0.0
    segments: list[Segment] = []
    for piece, gap in zip(pieces, gaps, strict=False):
        segments += segmenter.push(piece, now)
        now += gap
        segments += segmenter.due(now)
    segments += segmenter.finish(now)
    text = "".join(pieces)
    assert "".join(segment.text for segment in segments) + segmenter.rest == text
    assert not is_speakable(segmenter.rest)
    assert all(is_speakable(segment.text) for segment in segments)
    assert all(text[segment.start : segment.end] == segment.text for segment in segments)
    assert all(len(segment.text) <= SegmentOptions().max_characters or segment is segments[-1] for segment in segments)


@settings(max_examples=300, deadline=None)
@given(PIECES, st.lists(st.floats(0, 0.5), min_size=40, max_size=40))
def test_nothing_speakable_waits_longer_than_twice_the_longest_hold(pieces: list[str], gaps: list[float]) -> None:
    segmenter = Segmenter()
    limit = 2 * SegmentOptions().max_hold_ms / 1000 + 1e-6
    now, pushed = 0.0, 0
    arrived: list[tuple[int, float]] = []
    left: list[tuple[int, float]] = []
    for piece, gap in [*zip(pieces, gaps, strict=False), ("", 10.0)]:
        pushed += len(piece)
        if is_speakable(piece):
            arrived.append((pushed, now))
        left += [(segment.end, now) for segment in segmenter.push(piece, now)]
        while (wakeup := segmenter.next_wakeup()) is not None and wakeup <= now + gap:
            due = segmenter.due(wakeup)
            assert due
            left += [(segment.end, wakeup) for segment in due]
        now += gap
    for end, arrival in arrived:
        assert next(time for place, time in left if place >= end) - arrival <= limit


def test_the_first_segment_leaves_at_a_clause_and_later_ones_at_sentence_ends() -> None:
    text = "Sure, I can help you with that today, and I will find a table for four people. What name should I use?"
    parts = texts(tokens_of(text), gap_s=0.01)
    assert parts[0] == "Sure, I can help you with that today, "
    assert parts[1:] == ["and I will find a table for four people. ", "What name should I use?"]


def test_the_first_segment_does_not_wait_for_a_clause_on_a_slow_engine() -> None:
    text = "I will gladly look for a table for four people at seven in the evening on Friday. Is that right?"
    segments = spoken(tokens_of(text), gap_s=0.05)
    left, first = segments[0]
    assert left <= 0.25
    assert first.text == "I will gladly look "


def test_a_cut_for_time_avoids_words_that_lean_on_the_next() -> None:
    assert (
        spoken(tokens_of("I'm sorry for any inconvenience that this has caused you"), 0.06)[0][1].text == "I'm sorry "
    )


def test_a_finished_sentence_is_not_held_until_the_next_one_begins() -> None:
    segmenter = Segmenter()
    assert [segment.text for segment in segmenter.push(LEAD, 0.0)] == [LEAD]
    segmenter.push("it is ready.", 0.1)
    assert segmenter.due(0.249) == []
    assert [segment.text for segment in segmenter.due(0.251)] == ["it is ready."]


def test_a_full_stop_after_a_digit_waits_longer_but_not_without_end() -> None:
    segmenter = Segmenter()
    segmenter.push("Hello my friend, ", 0.0)
    segmenter.push("it costs $3.", 0.1)
    assert segmenter.due(0.3) == []
    assert [segment.text for segment in segmenter.push("14.", 0.31)] == []
    assert [segment.text for segment in segmenter.due(1.0)] == ["it costs $3.14."]


def test_speech_that_would_run_dry_gets_a_clause_before_the_sentence_ends() -> None:
    segmenter = Segmenter()
    out = segmenter.push("Yes I can, ", 0.0)
    assert [segment.text for segment in out] == ["Yes I can, "]
    segmenter.push("if you give me the name and, ", 0.3)
    wakeup = segmenter.next_wakeup()
    assert wakeup is not None
    # Three words last one second; the rest is wanted 0.4 s before they end.
    assert wakeup == pytest.approx(0.6)
    assert [segment.text for segment in segmenter.due(wakeup)] == ["if you give me the name and, "]


def test_marks_alone_are_never_a_segment() -> None:
    segmenter = Segmenter()
    assert segmenter.push("... !!! 😀 ", 0.0) == []
    assert segmenter.next_wakeup() is None
    assert segmenter.due(100.0) == []
    assert [segment.text for segment in segmenter.finish(100.0)] == []
    assert segmenter.rest == "... !!! 😀 "


def test_a_long_sentence_is_cut_at_a_clause() -> None:
    text = LEAD + "and then, " + "we walked along the river, " * 12 + "home."
    parts = texts([text], gap_s=0.0)
    assert all(len(part) <= 220 for part in parts)
    assert all(part.endswith(", ") for part in parts[1:-1])
