"""History as token ids: append-only, in the order of speech, only what was heard."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.fake_tokenizer import WordTokenizer
from service.conversation import Conversation, PromptTooLong

TOKENIZER = WordTokenizer()  # it learns words, so that one is shared


def conversation(limit: int = 10_000) -> Conversation:
    return Conversation(TOKENIZER, "be brief", limit)


def text_of(prompt: tuple[int, ...]) -> str:
    return TOKENIZER.decode(prompt)


def rendered(*messages: tuple[str, str]) -> list[int]:
    said = [{"role": role, "content": content} for role, content in messages]
    return TOKENIZER.encode(TOKENIZER.render(said, add_generation_prompt=True))


def test_a_prompt_is_the_templates_own_when_everything_was_heard() -> None:
    talk = conversation()
    assert list(talk.ask("hello")) == rendered(("system", "be brief"), ("user", "hello"))
    talk.answered(TOKENIZER.encode("hi there"))
    assert list(talk.ask("bye")) == rendered(
        ("system", "be brief"), ("user", "hello"), ("assistant", "hi there"), ("user", "bye")
    )


@given(st.lists(st.tuples(st.text("abc ", min_size=1), st.text("xyz ", min_size=1)), max_size=6))
def test_every_prompt_begins_with_the_one_before_and_what_was_heard(turns: list[tuple[str, str]]) -> None:
    talk = conversation()
    before: tuple[int, ...] = ()
    for user, reply in turns:
        prompt = talk.ask(user)
        assert prompt[: len(before)] == before
        heard = TOKENIZER.encode(reply)
        talk.answered(heard)
        before = prompt + tuple(heard)


def test_a_reply_of_which_nothing_was_heard_leaves_no_trace() -> None:
    talk = conversation()
    talk.ask("first")
    talk.answered([])
    prompt = talk.ask("second")
    assert list(prompt) == rendered(("system", "be brief"), ("user", "first\nsecond"))
    assert talk.exchanges == ()


def test_stop_tokens_never_enter_the_history() -> None:
    talk = conversation()
    talk.ask("hello")
    stop = next(iter(TOKENIZER.stop_token_ids))
    talk.answered([*TOKENIZER.encode("hi"), stop])
    assert list(talk.ask("bye")) == rendered(
        ("system", "be brief"), ("user", "hello"), ("assistant", "hi"), ("user", "bye")
    )


def test_the_oldest_exchanges_are_dropped_half_at_once() -> None:
    talk = conversation(limit=90)
    sizes = []
    for turn in range(12):
        prompt = talk.ask(f"question {turn} with some words")
        assert len(prompt) <= 90
        sizes.append(len(talk.exchanges))
        talk.answered(TOKENIZER.encode(f"answer {turn} with words"))
    assert max(sizes) >= 2
    assert any(after < before for before, after in zip(sizes, sizes[1:], strict=False))
    assert "question 11" in text_of(talk.ask("and?"))


def test_words_that_alone_are_too_long_are_refused_and_forgotten() -> None:
    talk = conversation(limit=60)
    with pytest.raises(PromptTooLong):
        talk.ask("word " * 100)
    assert list(talk.ask("hello")) == rendered(("system", "be brief"), ("user", "hello"))


def test_a_greeting_comes_before_the_callers_first_words() -> None:
    talk = conversation()
    talk.opened_with("welcome")
    prompt = text_of(talk.ask("hello"))
    assert prompt.index("welcome") < prompt.index("hello")


def test_keys_pressed_are_seen_with_the_next_words() -> None:
    talk = conversation()
    talk.note("(Keys pressed: 12#)")
    assert "(Keys pressed: 12#)" in text_of(talk.ask("hello"))


def test_a_preview_is_what_would_be_asked_and_stores_nothing() -> None:
    talk = conversation()
    assert talk.preview("hello", []) == talk.ask("hello")
    heard = TOKENIZER.encode("hi there")
    preview = talk.preview("bye", heard)
    assert talk.exchanges == ()
    talk.answered(heard)
    assert talk.ask("bye") == preview


def test_a_reply_that_is_taken_up_again_is_one_reply() -> None:
    talk = conversation(limit=60)
    assert talk.go_on() is None  # nothing has been said
    asked = talk.ask("hello")
    talk.answered(TOKENIZER.encode("we open"))
    assert talk.go_on() == (*asked, *TOKENIZER.encode("we open"))
    talk.answered(TOKENIZER.encode(" at nine"))
    [exchange] = talk.exchanges
    assert (exchange.user, text_of(exchange.reply_ids)) == ("hello", "we open at nine")
    assert list(talk.ask("bye")) == rendered(
        ("system", "be brief"), ("user", "hello"), ("assistant", "we open at nine"), ("user", "bye")
    )


def test_a_reply_of_which_nothing_was_heard_is_taken_up_from_its_beginning() -> None:
    talk = conversation()
    asked = talk.ask("hello")
    talk.answered([])
    assert talk.go_on() == asked


def test_there_must_be_room_to_go_on() -> None:
    talk = conversation(limit=40)
    talk.ask("hello")
    talk.answered(TOKENIZER.encode("word " * 40))
    assert talk.go_on() is None


def test_results_of_tools_follow_the_reply_that_called_them() -> None:
    talk = Conversation(TOKENIZER, "be brief", 400, [{"type": "function", "function": {"name": "hours"}}])
    assert talk.template_knows_tools
    asked = talk.ask("hello")
    called = talk.called(TOKENIZER.encode("CALL"), ["nine"])
    assert text_of(called) == text_of(asked) + "CALL\ntool\nnine\nassistant\n"
    talk.answered(TOKENIZER.encode("at nine"))
    assert talk.ask("bye")[: len(called)] == called
    with pytest.raises(PromptTooLong):
        talk.called(TOKENIZER.encode("CALL"), ["nine " * 400])


def test_a_template_that_shows_no_tools_is_noticed() -> None:
    class Plain(WordTokenizer):
        def render(self, messages: Any, *, add_generation_prompt: bool, tools: Any = ()) -> str:
            return super().render(messages, add_generation_prompt=add_generation_prompt)

    assert not Conversation(Plain(), "be brief", 400, [{"type": "function"}]).template_knows_tools
