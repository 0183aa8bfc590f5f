import json

from service.protocols.events import ClearAudio, EndTurn, Interrupted, SendToken
from service.protocols.relay import RelayDialect

SETUP = '{"type":"setup","callSid":"CA1"}'


def started() -> RelayDialect:
    dialect = RelayDialect("twilio")
    dialect.receive(SETUP, 0.0)
    return dialect


def test_the_end_of_an_older_turn_leaves_the_newer_one_open() -> None:
    dialect = started()
    dialect.send(SendToken(0, 0, "Old"), 0.0)
    dialect.send(SendToken(1, 0, "New"), 0.0)
    assert dialect.send(EndTurn(0, "interrupted"), 0.0) == []
    assert dialect.send(SendToken(1, 1, " word"), 0.0)
    [last] = dialect.send(EndTurn(1, "stop"), 0.0)
    assert json.loads(str(last))["last"] is True


def test_a_reply_without_text_needs_no_end() -> None:
    assert started().send(EndTurn(0, "stop"), 0.0) == []


def test_a_turn_ends_once() -> None:
    dialect = started()
    dialect.send(SendToken(0, 0, "Hi"), 0.0)
    assert len(dialect.send(EndTurn(0, "stop"), 0.0)) == 1
    assert dialect.send(EndTurn(0, "interrupted"), 0.0) == []
    assert dialect.send(ClearAudio(0), 0.0) == []


def test_spacing_is_kept_as_it_is() -> None:
    dialect = started()
    words = [" a", "  b", "\n", "é ", "\ud800"]
    sent = [json.loads(str(dialect.send(SendToken(0, at, word), 0.0)[0]))["token"] for at, word in enumerate(words)]
    assert sent == [" a", "  b", "\n", "é ", "?"]


def test_an_interruption_holds_even_if_all_its_fields_are_broken() -> None:
    dialect = started()
    first, *faults = dialect.receive(
        '{"type":"interrupt","utteranceUntilInterrupt":{},"durationUntilInterruptMs":[]}', 0.0
    )
    assert first == Interrupted(None, None)
    assert len(faults) == 2
