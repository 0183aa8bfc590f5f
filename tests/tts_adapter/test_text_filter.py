"""The filter says what a person would say, however the text was cut, and loses no word."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tts_adapter.text_filter import TextFilter

PIECES = [
    *["*", "**", "_", "__", "`", "```", "```py\n", "~~", "#", "# ", "- ", "[", "](http://a.b/c)", "]", "!", "<b>"],
    *["</b>", "<", '<a href="x">', "&amp;", "&", "\\", "|", " | ", "\n", " ", "a", "word", "12", "3.14", "😀", "👍🏽"],
    *["→", "你好", "http://", "https://x.io/a_b/", "<|x|>", "<!--c-->", ".", "---", "===", "5", "://", "\u200d"],
    *["\u200b", "h", "ht", "1️⃣", "| a | b |\n|---|---|\n", "<br/>", "१२", "ก", "\r\n"],
]
STREAMS = st.lists(st.sampled_from(PIECES), max_size=25).map("".join)


def filtered(text: str) -> str:
    text_filter = TextFilter()
    return text_filter.push(text) + text_filter.finish()


@pytest.mark.parametrize(
    ("raw", "spoken"),
    [
        ("**Bold** and *it* and ***both*** and __this__ and _that_.", "Bold and it and both and this and that."),
        ("# Title\n\nText", "Title\nText"),
        ("- one\n* two\n+ three\n• four\n1. five", "one\ntwo\nthree\nfour\n1. five"),
        ("- [ ] open\n- [x] done", "open\ndone"),
        ("> quoted\n> more", "quoted\nmore"),
        ("above\n\n---\n\nbelow", "above\nbelow"),
        ("Heading\n=======\ntext", "Heading\ntext"),
        ("| Name | Age |\n|---|:-:|\n| Bob | 5 |\n| Al |  |\nafter", "Name, Age\nBob, 5\nAl\nafter"),
        ("```python\nprint(1)\n```\nText", "print(1)\nText"),
        ("Run `make_all *now*` today", "Run make_all *now* today"),
        ("See [the page](https://a.b/c_d(e)) or ![a cat](cat.png).", "See the page or a cat."),
        ("Go to https://example.com/a_b_c/.", "Go to example.com/a_b_c."),
        ("Write to <bob@example.org> or <https://example.org/x>.", "Write to bob@example.org or example.org/x."),
        ("Hi 😀👍🏽 there", "Hi there"),
        ("Hi👩\u200d👩\u200d👧there", "Hi there"),
        ("press 1️⃣ or ①", "press 1 or ①"),
        ("A → B", "A B"),
        ("<b>bold</b> x<br/>y", "bold x y"),
        ('<speak><break time="1s"/>Hello</speak>', "Hello"),
        ("Done.<|im_end|>", "Done."),
        ("a<!-- note -->b", "ab"),
        ("AT&amp;T &lt; IBM", "AT&T < IBM"),
        ("one\u200btwo\u0007 three\ufeff", "onetwo three"),
        ("[[fəˈnɛtɪk]] speech", "fəˈnɛtɪk speech"),
        ("你好**世界**。", "你好世界。"),
        (r"5 \* 3 \# 2", "5 * 3 # 2"),
        ("~~gone~~ kept", "gone kept"),
    ],
)
def test_what_a_person_would_say(raw: str, spoken: str) -> None:
    assert filtered(raw) == spoken


@pytest.mark.parametrize(
    "plain",
    [
        "a < b and 3<5 but 7 > 2 <",
        "<b and c> are letters",
        "5 * 3 is 15, 2*3 is 6 and 2**3 is 8",
        "rated 5* by guests",
        "snake_case_name and __ __",
        "11111 and 0000 and 555-5555",
        "C# is #1, about ~5 of them",
        "-5 degrees, +1 555 0100",
        "5 - 3 = 2",
        "AT&T & co; R&D;",
        "20°C, ©2024, №5, €3.50",
        "Wow! Really?! (yes)",
        "می\u200cخواهم क्\u200dष",
        "10:30, 1,250.00, 3.11.7",
        "x | y || z",
        "**",
    ],
)
def test_plain_text_stays_as_it_is(plain: str) -> None:
    assert filtered(plain) == plain


@settings(max_examples=400, deadline=None)
@given(STREAMS, st.data())
def test_output_and_positions_do_not_depend_on_the_cuts(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=12)))
    cut_up, whole = TextFilter(), TextFilter()
    parts = [cut_up.push(text[a:b]) for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    expected = whole.push(text) + whole.finish()
    assert "".join(parts) + cut_up.finish() == expected
    places = range(len(expected) + 1)
    assert [cut_up.raw_position(at) for at in places] == [whole.raw_position(at) for at in places]


WORDS = st.lists(st.sampled_from(["alpha", "Beta7", "11111", "3", "naïve", "日本", "x2"]), min_size=1, max_size=12)
MARKS = st.sampled_from(
    [" ", " **", "** ", " *", "* ", " _", "_ ", "\n- ", "\n# ", " ~~", " `", "` ", " < ", " | ", ", "]
)


@settings(max_examples=400, deadline=None)
@given(WORDS, st.data())
def test_no_word_and_no_digit_is_lost(words: list[str], data: st.DataObject) -> None:
    raw = "".join(word + data.draw(MARKS) for word in words)
    assert re.findall(r"\w+", filtered(raw).replace("_", " ")) == words


@settings(max_examples=300, deadline=None)
@given(STREAMS)
def test_positions_map_back_in_order(text: str) -> None:
    text_filter = TextFilter()
    spoken = text_filter.push(text) + text_filter.finish()
    places = [text_filter.raw_position(at) for at in range(len(spoken) + 1)]
    assert places == sorted(places)
    assert places[-1] == len(text)


def test_positions_point_behind_the_words_that_were_said() -> None:
    raw = "**Hello** my [friend](https://a.b/c), bye"
    text_filter = TextFilter()
    spoken = text_filter.push(raw) + text_filter.finish()
    for word in ("Hello", "my", "friend", "bye"):
        end = spoken.index(word) + len(word)
        assert raw[: text_filter.raw_position(end)].endswith(word)


def test_what_can_be_said_is_said_at_once() -> None:
    text_filter = TextFilter()
    assert text_filter.push("Hello there") == "Hello there"
    assert text_filter.push(" [see the") == " see the"
    assert text_filter.push(" a < b") == " a < b"


@settings(max_examples=100, deadline=None)
@given(st.text("ab1 <>!-|()[]&;`*_~=\"'/:hw.\n", min_size=1, max_size=12), st.text('ab1 =<-."\n*`', max_size=6))
def test_what_is_held_back_is_bounded(opening: str, filler: str) -> None:
    text_filter = TextFilter()
    text_filter.push(opening)
    for _ in range(40):
        text_filter.push((filler + "a=b ") * 8)
        assert text_filter.held_back <= 512 + len(opening) + 8 * len(filler + "a=b ")


@pytest.mark.parametrize("opening", ["<a ", "<!-- ", "[x](h", "&", "```x", "---", "*", "`", "| ", "<|", "_", "https:"])
def test_markup_that_never_closes_holds_little_back(opening: str) -> None:
    text_filter = TextFilter()
    text_filter.push(opening)
    for _ in range(600):
        text_filter.push(opening[-1] + "a")
        assert text_filter.held_back <= 514


def test_code_can_be_skipped_but_never_what_follows_it() -> None:
    text_filter = TextFilter(code_blocks="skip")
    spoken = text_filter.push("Run this:\n```sh\nls -l\n```\nand wait.") + text_filter.finish()
    assert spoken == "Run this:\nand wait."
