"""What is refused before the engine sees it."""

from types import SimpleNamespace
from typing import Any

import pytest

from engine.api import RequestRefused
from service.openai_checks import Limits, check_sampling, paced_hold_ms, parse_body

PLAIN = Limits(speculation=False)
SPECULATING = Limits(speculation=True)


def params(**changes: Any) -> Any:
    defaults = {"n": 1, "min_p": 0.0, "logit_bias": None, "extra_args": None}
    return SimpleNamespace(**{**defaults, **changes})


@pytest.mark.parametrize(
    ("asked", "hold_ms"),
    [
        (None, None),
        (False, None),
        (True, 120.0),
        ({}, 120.0),
        ({"max_first_hold_ms": 0}, 0.0),
        ({"max_first_hold_ms": 80.5}, 80.5),
    ],
)
def test_pacing_is_read_from_the_body(asked: object, hold_ms: float | None) -> None:
    assert paced_hold_ms({"stream": True, "pacing": asked}, 120.0) == hold_ms


@pytest.mark.parametrize(
    ("body", "parameter"),
    [
        ({"stream": True, "pacing": 1}, "pacing"),
        ({"stream": True, "pacing": "yes"}, "pacing"),
        ({"stream": False, "pacing": True}, "pacing"),
        ({"pacing": True}, "pacing"),
        ({"stream": True, "n": 2, "pacing": True}, "pacing"),
        ({"stream": True, "pacing": {"hold": 1}}, "pacing.hold"),
        ({"stream": True, "pacing": {"max_first_hold_ms": -1}}, "pacing.max_first_hold_ms"),
        ({"stream": True, "pacing": {"max_first_hold_ms": True}}, "pacing.max_first_hold_ms"),
        ({"stream": True, "pacing": {"max_first_hold_ms": 1e9}}, "pacing.max_first_hold_ms"),
        ({"stream": True, "pacing": {"max_first_hold_ms": "9"}}, "pacing.max_first_hold_ms"),
    ],
)
def test_malformed_pacing_is_refused_by_name(body: dict[str, Any], parameter: str) -> None:
    with pytest.raises(RequestRefused) as refused:
        paced_hold_ms(body, 120.0)
    assert refused.value.parameter == parameter


def test_a_body_that_is_no_object_has_no_fields() -> None:
    assert parse_body(b'{"n": 2}') == {"n": 2}
    assert parse_body(b"{bad") == {}
    assert parse_body(b"[1]") == {}
    assert parse_body(b"\xff") == {}


@pytest.mark.parametrize("body", [b'{"top_p": NaN}', b'{"x": [Infinity]}', b"[" * 200_000])
def test_what_no_parser_should_be_given_is_refused(body: bytes) -> None:
    with pytest.raises(RequestRefused):
        parse_body(body)


@pytest.mark.parametrize(
    ("changes", "parameter"),
    [
        ({"min_p": 0.1}, "min_p"),
        ({"logit_bias": {5: 1.0}}, "logit_bias"),
        ({"n": 129}, "n"),
        ({"extra_args": {"kv_transfer_params": "x"}}, "vllm_xargs.kv_transfer_params"),
        ({"extra_args": {"ec_transfer_params": [1]}}, "vllm_xargs.ec_transfer_params"),
    ],
)
def test_what_speculation_lacks_is_refused_by_name(changes: dict[str, Any], parameter: str) -> None:
    with pytest.raises(RequestRefused) as refused:
        check_sampling(params(**changes), SPECULATING)
    assert refused.value.parameter == parameter


def test_without_speculation_the_sampler_has_everything() -> None:
    check_sampling(params(min_p=0.1, logit_bias={5: 1.0}, extra_args={"kv_transfer_params": {}}), PLAIN)
    with pytest.raises(RequestRefused, match="logit_bias"):
        check_sampling(params(logit_bias={5: float("nan")}), PLAIN)
