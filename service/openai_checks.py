"""What the OpenAI endpoints refuse before the engine sees it, and the one field they add to the API.

Some parameters reach vLLM's engine process and end it, or are refused without a word on which it was. They are caught
here, so that the client gets status 400 with the parameter's name and the engine stays up.

The added field is `pacing`: `true`, or `{"max_first_hold_ms": 80}`, in the request body of a stream
(`extra_body={"pacing": True}` in the official client). The tokens of that stream then leave evenly spaced.

Pure: no vLLM, no clock.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.api import RequestRefused

MAX_CHOICES = 128
"""Choices per prompt; the limit of the OpenAI API reference for `n`."""

MAX_FIRST_HOLD_MS = 2000.0
MIN_P_EPSILON = 1e-5


@dataclass(frozen=True, slots=True)
class Limits:
    """What the running engine can take.

    Attributes:
        speculation: whether drafts are verified; the sampler then lacks some parameters.
    """

    speculation: bool


def parse_body(body: bytes) -> dict[str, Any]:
    """The fields of a request; {} where the body is no JSON object, which the handlers then refuse in their own words.

    Raises:
        RequestRefused: the body holds what JSON does not have (NaN, Infinity) or what no parser should be given.
    """
    try:
        fields = json.loads(body, parse_constant=_refuse_constant)
    except RecursionError:
        raise RequestRefused("body", "nested too deeply") from None
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}


def _refuse_constant(name: str) -> None:
    raise RequestRefused("body", f"{name} is not a JSON value")


def paced_hold_ms(body: Mapping[str, Any], default_ms: float) -> float | None:
    """How long the first token of this stream may be held (ms); None where the request asks for no pacing.

    Raises:
        RequestRefused: `pacing` is malformed, or asked for together with what cannot be paced.
    """
    asked = body.get("pacing")
    if asked is None or asked is False:
        return None
    hold_ms = _hold_ms(asked, default_ms)
    if body.get("stream") is not True:
        raise RequestRefused("pacing", "only a stream can be paced; set stream to true")
    if body.get("n") not in (None, 1):
        raise RequestRefused("pacing", "a paced stream has one choice; set n to 1")
    return hold_ms


def _hold_ms(asked: object, default_ms: float) -> float:
    if asked is True:
        return default_ms
    if not isinstance(asked, dict):
        raise RequestRefused("pacing", "must be true, false or an object")
    unknown = sorted(set(asked) - {"max_first_hold_ms"})
    if unknown:
        raise RequestRefused(f"pacing.{unknown[0]}", "unknown; an object may hold max_first_hold_ms")
    hold_ms = asked.get("max_first_hold_ms", default_ms)
    is_number = isinstance(hold_ms, int | float) and not isinstance(hold_ms, bool)
    if not is_number or not 0 <= hold_ms <= MAX_FIRST_HOLD_MS:
        raise RequestRefused("pacing.max_first_hold_ms", f"must be a number from 0 to {MAX_FIRST_HOLD_MS:g}")
    return float(hold_ms)


def check_sampling(params: Any, limits: Limits) -> None:
    """Refuse sampling parameters that this engine lacks or that would end its process.

    Args:
        params: vLLM's `SamplingParams`.

    Raises:
        RequestRefused: naming the parameter.
    """
    if params.n > MAX_CHOICES:
        raise RequestRefused("n", f"at most {MAX_CHOICES} choices, got {params.n}")
    if limits.speculation and params.min_p > MIN_P_EPSILON:
        raise RequestRefused("min_p", "not supported while speculative decoding is on")
    if limits.speculation and params.logit_bias:
        raise RequestRefused("logit_bias", "not supported while speculative decoding is on")
    if any(not math.isfinite(bias) for bias in (params.logit_bias or {}).values()):
        raise RequestRefused("logit_bias", "every bias must be a finite number")
    for name in ("kv_transfer_params", "ec_transfer_params"):
        if not isinstance((params.extra_args or {}).get(name, {}), dict):
            raise RequestRefused(f"vllm_xargs.{name}", "must be an object")
