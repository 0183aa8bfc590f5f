"""A burst becomes single tokens and nothing is lost, moved or said twice."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from engine.pieces import Pieces
from service.openai_split import ChoiceText, TokenSplitter, WholeTokens


@dataclass
class Choice:
    """The attributes of vLLM's `CompletionOutput` that are used."""

    index: int
    token_ids: Sequence[int]
    text: str
    logprobs: list[dict[int, float]] | None = None
    finish_reason: str | None = None
    stop_reason: str | None = None
    spec_decode_metrics: object = None
    weight_versions: object = None
    routed_experts: object = None


@dataclass
class Output:
    """The attributes of vLLM's `RequestOutput` that are used."""

    outputs: list[Choice]
    finished: bool = False
    prompt_token_ids: list[int] = field(default_factory=list)
    prompt_logprobs: object = None


WORDS = ["one", " two", "", " three", "é", " 🙂"]


def word(token_id: int) -> str:
    return WORDS[token_id % len(WORDS)]


def splitter(*, by_token: bool = True, holds_back: bool = False) -> TokenSplitter:
    def new_text(prompt_token_ids: Sequence[int]) -> ChoiceText:
        return ChoiceText(Pieces(word), WholeTokens(word) if holds_back else None)

    return TokenSplitter(new_text, by_token=by_token)


def test_a_burst_becomes_one_output_per_token() -> None:
    burst = Choice(0, [0, 1, 3], "one two three", [{0: -1.0}, {1: -2.0}, {3: -3.0}], "stop", "END", "statistics")
    parts = list(splitter().split(Output([burst], finished=True, prompt_logprobs="of the prompt")))
    choices = [part.outputs[0] for part in parts]
    assert [choice.token_ids for choice in choices] == [[0], [1], [3]]
    assert [choice.text for choice in choices] == ["one", " two", " three"]
    assert [choice.logprobs for choice in choices] == [[{0: -1.0}], [{1: -2.0}], [{3: -3.0}]]
    assert [choice.finish_reason for choice in choices] == [None, None, "stop"]
    assert [choice.stop_reason for choice in choices] == [None, None, "END"]
    assert [choice.spec_decode_metrics for choice in choices] == [None, None, "statistics"]
    assert [part.finished for part in parts] == [False, False, True]
    assert [part.prompt_logprobs for part in parts] == ["of the prompt", None, None]
    assert burst.text == "one two three", "the engine's own object stays as it is"


def test_choices_of_one_output_leave_one_by_one() -> None:
    output = Output([Choice(1, [0], "one"), Choice(0, [1, 3], " two three")], finished=True)
    parts = list(splitter().split(output))
    assert [(part.outputs[0].index, part.outputs[0].text) for part in parts] == [(1, "one"), (0, " two"), (0, " three")]
    assert [part.finished for part in parts] == [False, False, True]


def test_an_end_without_a_token_still_leaves() -> None:
    (part,) = splitter().split(Output([Choice(0, [], "held", finish_reason="abort")], finished=True))
    assert (part.outputs[0].text, part.outputs[0].finish_reason) == ("held", "abort")


def test_bursts_stay_together_where_the_client_wants_them() -> None:
    (part,) = splitter(by_token=False).split(Output([Choice(0, [0, 1], "one two")]))
    assert part.outputs[0].token_ids == [0, 1]


@given(
    token_ids=st.lists(st.integers(0, 50), max_size=40),
    bursts=st.lists(st.integers(1, 6), min_size=40, max_size=40),
    held_chars=st.integers(0, 12),
    by_token=st.booleans(),
)
def test_held_back_text_leaves_in_whole_tokens(
    token_ids: list[int], bursts: list[int], held_chars: int, by_token: bool
) -> None:
    """vLLM's hold-back: the last `held_chars` characters stay until the reply ends."""
    cut = splitter(by_token=by_token, holds_back=True)
    ends, text = {0}, ""
    for token_id in token_ids:
        text += word(token_id)
        ends.add(len(text))
    sent, done, decoded, released = "", 0, 0, 0
    for size in bursts:
        ids = token_ids[done : done + size]
        done += len(ids)
        decoded += sum(len(word(token_id)) for token_id in ids)
        last = done == len(token_ids)
        end = decoded if last else max(released, decoded - held_chars)
        delta, released = text[released:end], end
        choice = Choice(0, ids, delta, finish_reason="length" if last else None)
        parts: list[Any] = list(cut.split(Output([choice], finished=last)))
        assert len(parts) == (max(1, len(ids)) if by_token else 1)
        for part in parts:
            sent += part.outputs[0].text
            assert len(sent) in ends
        if last:
            break
    assert sent == text
