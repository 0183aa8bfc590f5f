from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from engine.pieces import Pieces, window_decoder


class ByteTokenizer:
    """Ids are bytes: every character beyond ASCII needs several tokens."""

    def decode(self, token_ids: Sequence[int]) -> str:
        return bytes(token_ids).decode("utf-8", errors="replace")


def pieces(prompt: Sequence[int] = ()) -> Pieces:
    return Pieces(window_decoder(ByteTokenizer(), prompt))


def test_a_token_carries_the_text_it_completes() -> None:
    assert pieces().split([*"Hi é!".encode()], "Hi é!") == ("H", "i", " ", "", "é", "!")


def test_a_character_over_two_steps_goes_to_the_token_that_completes_it() -> None:
    face = "😀".encode()
    cutter = pieces()
    assert cutter.split(face[:3], "") == ("", "", "")
    assert cutter.split([face[3], ord("x")], "😀x") == ("😀", "x")


def test_held_back_text_goes_out_with_a_later_token() -> None:
    cutter = pieces()
    assert cutter.split(b"abc", "a") == ("a", "", "")
    assert cutter.split(b"de", "bcd") == ("bcd", "")
    assert cutter.split(b"f", "ef") == ("ef",)


def test_text_cut_off_at_a_stop_string_leaves_empty_pieces() -> None:
    cutter = pieces()
    assert cutter.split(b"ab", "a") == ("a", "")
    assert cutter.split(b"STOP", "b") == ("b", "", "", "")


def test_a_stop_token_carries_no_text() -> None:
    assert pieces().split(b"ok\x03", "ok") == ("o", "k", "")


def test_text_without_a_token_is_not_lost() -> None:
    cutter = pieces()
    assert cutter.split(b"ab", "a") == ("a", "")
    assert cutter.split([], "b") == ("b",)
    assert cutter.split([], "") == ()


def test_text_the_decoder_knows_nothing_of_goes_to_the_last_token() -> None:
    assert Pieces(lambda token_id: "").split([1, 2], "surprise") == ("", "surprise")


def test_the_window_gives_context_from_the_prompt() -> None:
    class SpaceDropping:
        """Drops the space before the first word of a sequence, as SentencePiece models do."""

        def decode(self, token_ids: Sequence[int]) -> str:
            return " ".join(f"w{token_id}" for token_id in token_ids)

    decode_next = window_decoder(SpaceDropping(), [1, 2])
    assert [decode_next(3), decode_next(4)] == [" w3", " w4"]


@given(
    st.text(max_size=40),
    st.lists(st.integers(1, 7), min_size=1),
    st.integers(0, 6),
)
def test_joined_pieces_are_the_text_and_one_string_goes_to_each_token(
    text: str, step_sizes: list[int], held_chars: int
) -> None:
    ids = [*text.encode(errors="replace")]
    text = bytes(ids).decode()
    cutter = pieces()
    sent = ""
    position = step = 0
    while position < len(ids):
        chunk = ids[position : position + step_sizes[step % len(step_sizes)]]
        position += len(chunk)
        step += 1
        known = bytes(ids[:position]).decode(errors="ignore")
        visible = text if position >= len(ids) else known[: max(len(sent), len(known) - held_chars)]
        got = cutter.split(chunk, visible[len(sent) :])
        assert len(got) == len(chunk)
        assert "".join(got) == visible[len(sent) :]
        sent = visible
    assert sent == text
