"""Requests that are refused by name before the engine sees them."""

import pytest

from engine.api import GenerateRequest, RequestRefused, Sampling
from engine.refusals import check


@pytest.mark.parametrize(
    ("prompt", "sampling", "parameter"),
    [
        ((), Sampling(), "prompt"),
        ((1,) * 64, Sampling(), "prompt"),
        ((1, 100), Sampling(), "prompt"),
        ((1, -1), Sampling(), "prompt"),
        ((1,), Sampling(max_tokens=0), "max_tokens"),
        ((1,), Sampling(temperature=-0.1), "temperature"),
        ((1,), Sampling(temperature=float("nan")), "temperature"),
        ((1,), Sampling(top_p=0.0), "top_p"),
        ((1,), Sampling(top_k=-1), "top_k"),
        ((1,), Sampling(repetition_penalty=0.0), "repetition_penalty"),
        ((1,), Sampling(stop=("x", "")), "stop"),
    ],
)
def test_the_parameter_at_fault_is_named(prompt: tuple[int, ...], sampling: Sampling, parameter: str) -> None:
    with pytest.raises(RequestRefused) as refused:
        check(GenerateRequest("r", prompt, sampling), max_model_len=64, vocabulary=100)
    assert refused.value.parameter == parameter


def test_everything_else_passes() -> None:
    check(GenerateRequest("r", (1,) * 63, Sampling(temperature=0.0, top_k=5, stop=("x",))), 64, 100)
