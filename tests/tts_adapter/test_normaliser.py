"""Written English said right, and positions that map back."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tts_adapter.normaliser import Normaliser, parse_vocabulary

NORMALISER = Normaliser({"SQL": "sequel", "Dr.": "doctor"})


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("It costs $3.14.", "It costs three dollars and fourteen cents."),
        ("$1,250.00, $1, $0.99", "one thousand two hundred fifty dollars, one dollar, ninety-nine cents"),
        ("$3.5 million or €20k", "three point five million dollars or twenty thousand euros"),
        ("£1.01", "one pound and one penny"),
        ("On 2026-11-29.", "On November twenty-ninth, twenty twenty-six."),
        ("Oct. 5th and November 3, 2026.", "October fifth and November third, twenty twenty-six."),
        ("I may 5 times.", "I may five times."),
        ("At 10:30, 10:05 and 10:00.", "At ten thirty, ten oh five and ten o'clock."),
        ("9am or 5:15 p.m. today", "nine A M or five fifteen P M. today"),
        ("Call 555-0100.", "Call five five five, zero one zero zero."),
        ("(555) 123-4567", "five five five, one two three, four five six seven"),
        ("Python 3.11.7 or v2.0.1", "Python three point eleven point seven or version two point zero point one"),
        ("5% of 3 kg", "five percent of three kilograms"),
        ("-5°C, 60 mph, 6 ft, 1 km", "minus five degrees Celsius, sixty miles per hour, six feet, one kilometer"),
        ("the 1st, 22nd and 103rd", "the first, twenty-second and one hundred third"),
        ("10-20 people", "ten to twenty people"),
        ("in 1987, since 2006, of 1900", "in nineteen eighty-seven, since two thousand six, of nineteen hundred"),
        ("2000 people", "two thousand people"),
        ("order 12345, zip 02139", "order one two three four five, zip zero two one three nine"),
        ("10000 or 1,000,000", "ten thousand or one million"),
        ("#1, ~5, 3.14, -7", "number one, about five, three point one four, minus seven"),
        ("bob.lee@mail.example.org", "bob dot lee at mail dot example dot org"),
        ("see example.com/help", "see example dot com slash help"),
        ("SQL and PDFs via SMS; NASA", "sequel and P D Fs via S M S; NASA"),
        ("3 < 5 & 2 + 2 = 4", "three less than five and two plus two equals four"),
        ("Dr. Lee", "doctor Lee"),
    ],
)
def test_said_as_a_person_would(written: str, said: str) -> None:
    assert NORMALISER.spoken(written).text == said


@pytest.mark.parametrize("text", ["a4 b2b 3D x1", "7/8 and 5:1", "MySQL", "Plain words, nothing else.", "", "你好。"])
def test_what_no_rule_knows_stays(text: str) -> None:
    assert NORMALISER.spoken(text).text == text


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from(["$3.14 ", "word ", "10:30 ", "SQL ", "5% ", "a@b.co ", "12345 ", ". ", "3-4 "])).map(
        "".join
    )
)
def test_positions_map_back_in_order(written: str) -> None:
    spoken = NORMALISER.spoken(written)
    places = [spoken.written_position(at) for at in range(len(spoken.text) + 1)]
    assert places == sorted(places)
    assert places[0] == 0
    assert places[-1] == len(written)


def test_a_position_inside_a_number_does_not_count_it() -> None:
    spoken = NORMALISER.spoken("It costs $3.14 today")
    inside = spoken.text.index("fourteen")
    assert spoken.written_position(inside) == len("It costs ")
    end = spoken.text.index(" today")
    assert spoken.written_position(end) == len("It costs $3.14")


def test_a_vocabulary_file() -> None:
    assert parse_vocabulary("# words\nSQL = sequel\n\nC# = C sharp\n") == {"SQL": "sequel", "C#": "C sharp"}
    with pytest.raises(ValueError, match="line 2"):
        parse_vocabulary("a = b\nnothing\n")
