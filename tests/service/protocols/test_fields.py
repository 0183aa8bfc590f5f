import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.protocols.fields import MAX_MESSAGE_CHARS, BadField, Body

ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize("value", ["460", 460, 460.0, "460.0", " 460 "])
def test_numbers_are_read_however_they_are_written(value: Any) -> None:
    assert Body({"ms": value}).number("ms") == 460.0


@pytest.mark.parametrize("value", [None, ""])
def test_a_missing_number_is_none(value: Any) -> None:
    assert Body({"ms": value}).number("ms") is None


@pytest.mark.parametrize("value", ["soon", True, [], {}, "nan", "inf", "1e999", -1, 10**400, "٣x"])
def test_anything_else_is_no_number(value: Any) -> None:
    with pytest.raises(BadField, match="ms: must be"):
        Body({"ms": value}).number("ms")


@pytest.mark.parametrize(
    ("value", "expected"),
    [(True, True), ("true", True), ("False", False), (0, False), (1, True), ("1", True), (None, True), (1.0, True)],
)
def test_truth_values_are_read_however_they_are_written(value: Any, expected: bool) -> None:
    assert Body({"last": value}).flag("last", True) is expected


@pytest.mark.parametrize("data", ["", "x", "[]", "1", '"text"', "[" * 100_000, '{"a": NaN}', '{"a":1', b"{}"])
def test_what_is_no_object_names_the_message(data: Any) -> None:
    with pytest.raises(BadField) as fault:
        Body.parse(data)
    assert fault.value.field == "message"


def test_a_message_has_a_longest_length() -> None:
    with pytest.raises(BadField, match="longer than"):
        Body.parse('{"a":"' + "x" * MAX_MESSAGE_CHARS + '"}')


def test_faults_name_the_whole_path_and_not_the_value() -> None:
    body = Body.parse('{"start": {"mediaFormat": {"encoding": {"secret": 1}}}}')
    with pytest.raises(BadField) as fault:
        body.child("start").child("mediaFormat").text("encoding")
    assert str(fault.value) == "start.mediaFormat.encoding: must be text"


def test_half_a_surrogate_pair_becomes_a_question_mark() -> None:
    assert Body({"text": "a\ud800b"}).text("text") == "a?b"
    with pytest.raises(BadField):
        Body({"text": "x" * 129}).text("text")


def test_parameters_are_few_and_short() -> None:
    many = {f"k{n}": "v" for n in range(100)}
    kept = Body({"p": {"n": 1, "f": 1.5, "flag": True, "deep": {}, "long": "x" * 2_000, "huge": 10**100, **many}})
    parameters = kept.parameters("p")
    assert parameters["n"] == "1"
    assert parameters["f"] == "1.5"
    assert len(parameters) == 64
    assert not {"flag", "deep", "long", "huge"} & set(parameters)


def test_audio_is_bounded_and_strict() -> None:
    assert Body({"payload": "AQI="}).audio("payload") == b"\x01\x02"
    for value in ("AQI", "A Q I =", "", None, 5, "A" * 200_000):
        with pytest.raises(BadField):
            Body({"payload": value}).audio("payload")


def fault_of(read: Callable[[], Any]) -> BadField | None:
    """The fault that reading ends in, if any; everything else it raises is a failure."""
    try:
        read()
    except BadField as fault:
        return fault
    return None


@given(value=ANY_JSON)
def test_no_value_raises_anything_but_a_fault(value: Any) -> None:
    body = Body({"x": value})
    readers = (body.text, body.number, body.digit, body.audio, body.parameters, body.child, body.children)
    for reader in (*readers, lambda name: body.flag(name, True)):
        fault = fault_of(partial(reader, "x"))
        assert fault is None or fault.field.startswith("x")


@given(text=st.text(alphabet=st.characters(), max_size=20))
def test_every_text_can_be_encoded(text: str) -> None:
    Body({"x": text}).text("x").encode("utf-8")


@given(message=st.dictionaries(st.text(), ANY_JSON, max_size=3))
def test_every_object_is_read_or_named(message: dict[str, Any]) -> None:
    fault = fault_of(lambda: Body.parse(json.dumps(message)))
    assert fault is None or fault.field == "message"
