"""Files of replies, and what is left out of them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.heads.replies import (
    LOOP_TOKENS,
    RepliesError,
    Reply,
    cut_at_loops,
    distinct,
    loop_start,
    read,
    split,
    without_loops,
    write,
)


def reply(*ids: int, temperature: float = 0.0, topic: str = "parcels") -> Reply:
    return Reply((1, 2), ids, temperature, topic)


def test_a_file_holds_what_was_written_and_the_same_bytes_each_time(tmp_path: Path) -> None:
    replies = [reply(5, 6, 7), reply(8, temperature=0.7, topic="tea")]
    for name in ("a", "b"):
        write(tmp_path / name, replies, {"seed": 1})
    assert read(tmp_path / "a") == replies
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_plain_lines_without_a_header_are_replies(tmp_path: Path) -> None:
    path = tmp_path / "plain.jsonl"
    path.write_text('{"prompt_ids": [1], "ids": [2, 3], "temperature": 0.7, "topic": "t"}\n')
    assert read(path) == [Reply((1,), (2, 3), 0.7, "t")]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('{"format": "voicepace-replies", "version": 9}\n', "not version 1"),
        ('{"prompt_ids": [1], "ids": [2], "temperature": 0}\n', "line 1: not a reply"),
        ('{"prompt_ids": [1], "ids": [], "temperature": 0, "topic": "t"}\n', "line 1: an empty"),
        ("nonsense\n", "line 1: not a reply"),
    ],
)
def test_what_is_no_file_of_replies_is_refused_by_line(tmp_path: Path, text: str, fault: str) -> None:
    path = tmp_path / "replies.jsonl"
    path.write_text(text)
    with pytest.raises(RepliesError, match=fault):
        read(path)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "replies.jsonl.gz"
    path.write_bytes(b"\x1f\x8b broken")
    with pytest.raises(RepliesError, match="neither text"):
        read(path)


@given(st.lists(st.integers(0, 3), max_size=60), st.integers(1, 5))
def test_a_loop_is_the_first_run_that_was_there_before(ids: list[int], length: int) -> None:
    runs = [tuple(ids[at : at + length]) for at in range(len(ids) - length + 1)]
    expected = next((at for at, run in enumerate(runs) if run in runs[:at]), None)
    assert loop_start(ids, length) == expected


def test_loops_are_cut_or_left_out_and_each_text_counts_once() -> None:
    calm, looping = reply(*range(20)), reply(*(list(range(9)) * 3))
    again = Reply((9, 9), calm.ids, 0.7, "other")
    assert distinct([calm, looping, again]) == [calm, looping]
    assert without_loops([calm, looping, again]) == [calm]
    cut = cut_at_loops([looping])[0].ids
    assert cut == looping.ids[: 9 + LOOP_TOKENS]
    assert loop_start(cut[:-1]) is None


def test_whole_topics_are_held_out() -> None:
    replies = [reply(1, topic="a"), reply(2, topic="b"), reply(3, topic="a")]
    assert split(replies, ["a"]) == ([replies[1]], [replies[0], replies[2]])
