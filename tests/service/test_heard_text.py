import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.heard_text import HeardPosition, match, round_down

REPLY = "Of course. Our shop, at 12 Mill Lane, opens at nine. Anything else?"
ANY_TEXT = st.text(alphabet=st.sampled_from("ab .,é1\n時ก"), max_size=40)


@pytest.mark.parametrize(
    ("text", "position", "complete", "heard"),
    [
        ("Hello there", 0, False, ""),
        ("Hello there", 3, False, ""),
        ("Hello there", 5, False, "Hello"),
        ("Hello there", 6, False, "Hello"),
        ("Hello there", 9, True, "Hello"),
        ("Hello there", 11, True, "Hello there"),
        ("Hello ther", 10, False, "Hello"),
        ("Hello ", 6, False, "Hello"),
        ("It costs $3.14 today", 11, False, "It costs"),
        ("今日は晴れです。", 3, False, "今日は"),
        ("สวัสดีครับ", 4, False, "สวัส"),
        ("word", 99, True, "word"),
    ],
)
def test_positions_are_rounded_down_to_a_word(text: str, position: int, complete: bool, heard: str) -> None:
    assert text[: round_down(text, position, complete)] == heard


@given(text=ANY_TEXT, first=st.integers(0, 45), second=st.integers(0, 45), complete=st.booleans())
def test_rounding_never_goes_up_and_keeps_the_order(text: str, first: int, second: int, complete: bool) -> None:
    low, high = sorted((first, second))
    assert round_down(text, low, complete) <= low
    assert round_down(text, low, complete) <= round_down(text, high, complete)


@given(text=ANY_TEXT, position=st.integers(0, 45))
def test_a_word_is_heard_whole_or_not_at_all(text: str, position: int) -> None:
    rest = text[round_down(text, position, True) :]
    heard = text[: len(text) - len(rest)]
    spaced = not heard or not rest or heard[-1].isspace() or rest[0].isspace()
    assert spaced or any(char in "時ก" for char in (heard[-1], rest[0]))


@pytest.mark.parametrize(
    ("heard", "ends_with"),
    [
        ("Of course. Our shop", "Our shop,"),
        ("of course our shop", "Our shop,"),
        ("  Of course.Our   shop, at", "Our shop, at"),
        ("OF COURSE", "Of course."),
        ("Of course our shop at twelve Mill Lane", "Lane,"),
        ("Our shop, at", "Our shop, at"),  # the platform reports the current sentence alone
        ("Of course. Our store, at 12 Mill", "12 Mill"),
        ("opens at 9 anything", "Anything"),  # from the middle, and a number spelt otherwise
        ("", ""),
        ("…", ""),
    ],
)
def test_a_report_is_found_whatever_its_spelling(heard: str, ends_with: str) -> None:
    found = match(REPLY, heard)
    assert REPLY[: found.chars].endswith(ends_with)
    assert not found.estimated
    assert found.chars == REPLY.find(ends_with) + len(ends_with) if ends_with else found.chars == 0


def test_words_that_match_nothing_are_not_counted_as_heard() -> None:
    found = match("It costs $3.14. Thank you for asking.", "it costs three dollars and fourteen cents")
    assert found == HeardPosition(len("It costs"), True)


def test_the_first_of_several_places_is_taken() -> None:
    assert match("No, no, no. I mean it.", "no") == HeardPosition(len("No,"), False)


def test_another_text_altogether_is_not_heard() -> None:
    assert match(REPLY, "zzz qqq") == HeardPosition(0, True)


@given(cut=st.integers(0, len(REPLY)))
def test_every_beginning_is_found_where_it_ends(cut: int) -> None:
    found = match(REPLY, REPLY[:cut].upper().replace(",", ""))
    heard = REPLY[: round_down(REPLY, found.chars, True)]
    assert heard == REPLY[: round_down(REPLY, cut, True)] or heard.startswith(REPLY[:cut].rstrip())


@given(text=ANY_TEXT, heard=ANY_TEXT)
def test_never_more_than_there_is(text: str, heard: str) -> None:
    assert 0 <= match(text, heard).chars <= len(text)
