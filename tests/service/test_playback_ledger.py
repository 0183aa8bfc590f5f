import pytest
from hypothesis import given
from hypothesis import strategies as st

from service import playback_ledger
from service.playback_ledger import PlaybackLedger, mark_name

WORDS = ["Our", " shop", " opens", " at", " nine", ",", " every", " day", "."]
REPLY = "".join(WORDS)


def relay(words: list[str] = WORDS, **options: float) -> PlaybackLedger:
    """A ledger of a text bridge after one reply, a token every 20 ms from 10 s on."""
    ledger = PlaybackLedger(reports_position=True, **options)
    for index, word in enumerate(words):
        ledger.sent_token(0, index, word, 10.0 + index * 0.02)
    return ledger


def audio(reports_position: bool = True) -> PlaybackLedger:
    """Two segments, 1 s each, a mark behind each of four halves."""
    ledger = PlaybackLedger(reports_position=reports_position)
    ledger.add_text(0, "Hello there. ")
    ledger.add_text(0, "How are you?")
    for number, (start, end) in enumerate([(0, 6), (6, 13), (13, 19), (19, 25)]):
        ledger.sent_audio(0, start, end, 500.0, 10.0 + number * 0.5, mark_name(0, number))
    return ledger


def states(ledger: PlaybackLedger, turn_id: int = 0) -> dict[str, int]:
    """Characters in each state."""
    count: dict[str, int] = {}
    for piece in ledger.pieces(turn_id):
        count[piece.state] = count.get(piece.state, 0) + piece.end_char - piece.start_char
    return count


def test_a_relay_reply_that_ended_uninterrupted_is_wholly_heard() -> None:
    ledger = relay()
    ledger.finished(0, 11.0)
    assert ledger.heard(0) == REPLY
    assert not ledger.estimated(0)


def test_an_interruption_keeps_exactly_the_words_the_bridge_reports() -> None:
    ledger = relay()
    ledger.finished(0, 11.0)
    ledger.interrupted(0, 11.5, heard_text="our shop opens")
    assert ledger.heard(0) == "Our shop opens"
    assert not ledger.estimated(0)
    assert states(ledger) == {"played": 14, "cleared": len(REPLY) - 14}


def test_interrupted_before_anything_was_heard_stores_nothing() -> None:
    ledger = relay()
    ledger.interrupted(0, 10.2, heard_text="")
    assert ledger.heard(0) == ""
    assert states(ledger) == {"cleared": len(REPLY)}


def test_interrupted_before_anything_was_sent_stores_nothing() -> None:
    ledger = PlaybackLedger(reports_position=True)
    ledger.interrupted(0, 1.0, heard_text="Welcome to the shop")
    assert ledger.heard(0) == ""


def test_a_word_whose_end_has_not_been_sent_is_not_heard() -> None:
    ledger = relay(["Ex", "cellent", " id"])
    ledger.played(0, token_index=2)
    assert ledger.heard(0) == "Excellent"


def test_an_interruption_without_a_position_is_estimated() -> None:
    ledger = relay(speaking_rate_wpm=60.0)  # six characters a second
    ledger.interrupted(0, 12.0)
    assert ledger.heard(0) == "Our shop"
    assert ledger.estimated(0)


def test_a_bridge_without_positions_is_estimated_from_time() -> None:
    ledger = PlaybackLedger(reports_position=False, speaking_rate_wpm=60.0)
    ledger.sent_token(0, 0, "One two ", 10.0)
    ledger.sent_token(0, 1, "three four", 20.0)
    ledger.interrupted(0, 20.5)
    assert ledger.heard(0) == "One two"
    assert ledger.estimated(0)


def test_the_estimate_never_passes_what_was_sent() -> None:
    ledger = PlaybackLedger(reports_position=False)
    ledger.sent_token(0, 0, "Only this. ", 10.0)
    ledger.interrupted(0, 9_999.0)
    assert ledger.heard(0) == "Only this."


def test_a_bridge_without_positions_hears_a_finished_reply() -> None:
    ledger = PlaybackLedger(reports_position=False)
    ledger.sent_token(0, 0, "All of it", 10.0)
    ledger.finished(0, 11.0)
    assert ledger.heard(0) == "All of it"
    assert ledger.estimated(0)


def test_marks_report_audio_and_nothing_else_does() -> None:
    ledger = audio()
    ledger.finished(0, 11.0)
    assert ledger.heard(0) == ""
    ledger.mark(mark_name(0, 0), True, 11.2)
    assert ledger.heard(0) == "Hello"
    ledger.mark(mark_name(0, 2), True, 11.3)
    assert ledger.heard(0) == "Hello there. How"
    assert states(ledger) == {"played": 19, "queued": 6}


def test_marks_out_of_order_and_doubled_change_nothing() -> None:
    ledger = audio()
    for number in (1, 0, 1, 0):
        ledger.mark(mark_name(0, number), True, 11.0)
    assert ledger.heard(0) == "Hello there."
    ledger.mark("never sent", True, 12.0)
    assert ledger.heard(0) == "Hello there."


def test_a_cleared_mark_was_not_heard() -> None:
    ledger = audio()
    ledger.mark(mark_name(0, 0), True, 10.6)
    ledger.interrupted(0, 10.7)
    for number in (1, 2, 3):
        ledger.mark(mark_name(0, number), False, 10.8)
    assert ledger.heard(0) == "Hello"
    assert states(ledger) == {"played": 6, "cleared": 19}


def test_time_maps_linearly_inside_a_piece_of_audio() -> None:
    ledger = PlaybackLedger(reports_position=True)
    ledger.add_text(0, "aaa bbb ccc ddd")
    ledger.sent_audio(0, 0, 15, 1500.0, 10.0)
    ledger.played(0, audio_ms=750.0)
    assert ledger.heard(0) == "aaa bbb"
    ledger.played(0, audio_ms=300.0)
    assert ledger.heard(0) == "aaa bbb"
    ledger.interrupted(0, 11.0, heard_ms=1_150.0)
    assert ledger.heard(0) == "aaa bbb ccc"


def test_audio_without_positions_is_estimated_from_its_own_length() -> None:
    ledger = audio(reports_position=False)
    ledger.interrupted(0, 11.0)
    assert ledger.heard(0) == "Hello there."
    assert ledger.estimated(0)


def test_the_first_interruption_stands() -> None:
    ledger = relay()
    ledger.interrupted(0, 11.0, heard_text="Our shop")
    ledger.interrupted(0, 11.1, heard_text="Our shop opens at nine")
    ledger.interrupted(0, 11.2)
    assert ledger.heard(0) == "Our shop"


def test_nothing_is_added_to_an_interrupted_turn() -> None:
    ledger = relay(["One"])
    ledger.interrupted(0, 11.0, heard_text="One")
    ledger.sent_token(0, 1, " two", 11.1)
    ledger.played(0, token_index=1)
    assert ledger.heard(0) == "One"
    assert states(ledger) == {"played": 3}


def test_the_end_of_the_call_leaves_the_rest_unknown() -> None:
    ledger = audio()
    ledger.mark(mark_name(0, 1), True, 11.0)
    ledger.call_ended()
    assert states(ledger) == {"played": 13, "unknown": 12}


def test_old_turns_are_forgotten_and_pieces_joined() -> None:
    ledger = PlaybackLedger(reports_position=True)
    for turn in range(playback_ledger.MAX_TURNS + 2):
        ledger.sent_token(turn, 0, "word ", 1.0)
        ledger.finished(turn, 1.0)
    assert ledger.heard(0) == ""
    assert ledger.heard(playback_ledger.MAX_TURNS + 1) == "word "
    for index in range(5 * playback_ledger.MAX_PIECES):
        ledger.sent_token(99, index, "ab ", 2.0 + index)
    assert len(ledger.pieces(99)) <= playback_ledger.MAX_PIECES
    ledger.played(99, token_index=99)
    assert ledger.heard_chars(99) == 299


def test_what_is_too_long_to_keep_is_not_kept() -> None:
    ledger = PlaybackLedger(reports_position=True)
    for index in range(100):
        ledger.sent_token(0, index, "x" * 1000, 1.0)
    ledger.finished(0, 2.0)
    assert ledger.heard_chars(0) == playback_ledger.MAX_TEXT_CHARS


TOKENS = st.lists(st.sampled_from(["a", " b", "cd ", " ef", ".", "", " 時", "g\n"]), min_size=1, max_size=30)


@given(tokens=TOKENS, reports=st.lists(st.integers(-2, 35), max_size=10))
def test_reports_only_grow_and_never_pass_what_was_sent(tokens: list[str], reports: list[int]) -> None:
    ledger = relay(tokens)
    before = 0
    for index in reports:
        ledger.played(0, token_index=index)
        heard = ledger.heard_chars(0)
        assert before <= heard <= len("".join(tokens))
        before = heard


@given(tokens=TOKENS, at=st.floats(0, 60), finished=st.booleans(), heard=st.none() | st.text("ab cdef.時", max_size=20))
def test_an_interruption_leaves_whole_words_and_no_queue(
    tokens: list[str], at: float, finished: bool, heard: str | None
) -> None:
    ledger, text = relay(tokens), "".join(tokens)
    if finished:
        ledger.finished(0, 11.0)
    ledger.interrupted(0, 10.0 + at, heard_text=heard)
    end = ledger.heard_chars(0)
    assert end <= len(text)
    assert "queued" not in states(ledger)
    assert sum(states(ledger).values()) == len(text)
    if 0 < end < len(text):
        assert text[end].isspace() or text[end - 1].isspace() or "時" in (text[end - 1], text[end])


@given(at=st.lists(st.floats(0, 30), min_size=2, max_size=2))
def test_later_is_never_less(at: list[float]) -> None:
    heard = []
    for seconds in sorted(at):
        ledger = PlaybackLedger(reports_position=False)
        for index, word in enumerate(WORDS):
            ledger.sent_token(0, index, word, 10.0 + index * 0.5)
        ledger.interrupted(0, 10.0 + seconds)
        heard.append(ledger.heard_chars(0))
    assert heard[0] <= heard[1]


@pytest.mark.parametrize("marks", [[0], [3, 1], [2, 2], [0, 1, 2, 3]])
def test_audio_is_heard_up_to_the_farthest_mark(marks: list[int]) -> None:
    ledger = audio()
    for number in marks:
        ledger.mark(mark_name(0, number), True, 12.0)
    assert ledger.heard(0) == ["Hello", "Hello there.", "Hello there. How", "Hello there. How are you?"][max(marks)]
