import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from service.bridges.bridge import Refused, TextArrived
from service.bridges.jambonz import JambonzBridge
from service.protocols.events import ClearAudio, EndTurn, Event, FlowResumed, Reply, SendToken
from service.protocols.jambonz import MAX_WAITING_CHARS, RETRY_S, JambonzDialect, TokenQueue


def result(piece_id: str, status: str = "ok", reason: str | None = None) -> str:
    data = {"id": piece_id, "status": status, **({"reason": reason} if reason else {})}
    return json.dumps({"type": "tts:tokens-result", "msgid": "m", "call_sid": "c", "data": data})


def said(frames: list[Any]) -> list[str]:
    return [json.loads(frame)["data"]["tokens"] for frame in frames]


def test_the_acknowledgement_comes_before_everything_else() -> None:
    events = JambonzDialect().receive(JambonzBridge().opening()[0], 0.0)
    assert isinstance(events[0], Reply)


def test_a_resumption_that_never_comes_is_not_waited_for() -> None:
    dialect = JambonzDialect()
    dialect.send(SendToken(0, 0, "One"), 0.0)
    dialect.receive(result("0", "failed", "full"), 0.0)
    assert dialect.send(SendToken(0, 1, " two"), RETRY_S - 0.1) == []
    other = '{"type":"verb:status","msgid":"m","data":{}}'
    resumed, reply = dialect.receive(other, RETRY_S)
    assert isinstance(resumed, FlowResumed)
    assert isinstance(reply, Reply)
    assert said(list(reply.frames)) == ["One two"]


def test_the_result_of_a_cleared_piece_frees_nothing() -> None:
    dialect = JambonzDialect()
    dialect.send(SendToken(0, 0, "Old"), 0.0)
    dialect.send(ClearAudio(0), 0.0)
    assert said(dialect.send(SendToken(1, 0, "New"), 0.0)) == ["New"]
    dialect.send(SendToken(1, 1, " more"), 0.0)
    assert dialect.receive(result("0"), 0.0) == []
    assert said(list(dialect.receive(result("1"), 0.0)[0].frames)) == [" more"]  # type: ignore[union-attr]


def test_a_turn_of_white_space_alone_sends_no_text() -> None:
    dialect = JambonzDialect()
    assert dialect.send(SendToken(0, 0, " \n"), 0.0) == []
    [flush] = dialect.send(EndTurn(0, "stop"), 0.0)
    assert json.loads(str(flush))["command"] == "tts:flush"


def test_white_space_of_a_turn_that_was_left_open_holds_nothing_back() -> None:
    dialect = JambonzDialect()
    dialect.send(SendToken(0, 0, " "), 0.0)
    assert said(dialect.send(SendToken(1, 0, "Next"), 0.0)) == ["Next"]


def test_gathered_tokens_fit_into_one_piece() -> None:
    queue = TokenQueue()
    queue.push(0, "first", 0.0)
    for _ in range(30):
        queue.push(0, "😀" * 45 + " " * 10, 0.0)
    pieces = []
    for piece_id in range(4):
        pieces += said(queue.answered(str(piece_id), True, False, 0.0))
    assert [len(piece.encode("utf-16-le")) // 2 for piece in pieces] == [1000, 1000, 1000]


def test_what_waits_is_bounded() -> None:
    queue = TokenQueue()
    for _ in range(200):
        queue.push(0, "x" * 1_000, 0.0)
    assert queue._chars <= MAX_WAITING_CHARS


TEXTS = st.lists(st.text(alphabet="ab .\n😀é", max_size=400), max_size=25)


@given(texts=TEXTS, wait_s=st.lists(st.floats(0, 30), min_size=1, max_size=8))
def test_a_real_buffer_gets_every_character_once_in_order(texts: list[str], wait_s: list[float]) -> None:
    """Against the platform's water marks, whatever the pace of speech."""
    bridge, dialect, now = JambonzBridge(chars_per_s=50.0), JambonzDialect(), 0.0
    arrived: list[str] = []

    def to_service(frames: list[Any]) -> None:
        for frame in frames:
            for event in dialect.receive(frame, now):
                take(event)

    def take(event: Event) -> None:
        if isinstance(event, Reply):
            to_bridge(list(event.frames))

    def to_bridge(frames: list[Any]) -> None:
        for frame in frames:
            facts, answers = bridge.receive(frame, now)
            assert not any(isinstance(fact, Refused) for fact in facts)
            arrived.extend(fact.text for fact in facts if isinstance(fact, TextArrived))
            to_service(answers)

    to_service(bridge.opening())
    for index, text in enumerate(texts):
        to_bridge(dialect.send(SendToken(0, index, text), now))
        now += wait_s[index % len(wait_s)]
        to_service(bridge.tick(now))
    to_bridge(dialect.send(EndTurn(0, "stop"), now))
    for _ in range(400):
        now += 1.0
        to_service(bridge.tick(now))
    assert "".join(arrived).rstrip() == "".join(texts).rstrip()
