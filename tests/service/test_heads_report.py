"""Whether heads fit, from a service's own exposition."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from service.cli import main
from service.heads_fit import in_words, read_fit

EXPOSITION = """\
# TYPE voicepace_acceptance_length histogram
voicepace_acceptance_length_bucket{surface="voice",dialect="native",model="m",le="+Inf"} 60
voicepace_acceptance_length_sum{surface="voice",dialect="native",model="m"} 90
voicepace_acceptance_length_count{surface="voice",dialect="native",model="m"} 60
voicepace_acceptance_length_bucket{surface="openai",dialect="",model="m",le="+Inf"} 40
voicepace_acceptance_length_sum{surface="openai",dialect="",model="m"} 60
voicepace_acceptance_length_count{surface="openai",dialect="",model="m"} 40
# TYPE voicepace_accepted_total counter
voicepace_accepted_total{depth="1",surface="voice",model="m"} 30
voicepace_accepted_total{depth="1",surface="openai",model="m"} 10
voicepace_accepted_total{depth="10",surface="voice",model="m"} 0
voicepace_accepted_total{depth="2",surface="voice",model="m"} 10
"""


def stored(value: float) -> str:
    name = "voicepace_heads_acceptance_length"
    return f'{EXPOSITION}# TYPE {name} gauge\n{name}{{model="m"}} {value}\n'


def test_surfaces_are_taken_together() -> None:
    fit = read_fit(EXPOSITION)
    assert (fit.steps, fit.mean, fit.stored) == (100, 1.5, None)
    assert fit.accepted == {1: 40, 2: 10}
    assert fit.retrain is None
    assert "depth 1: 40.0%" in in_words(fit)


@pytest.mark.parametrize(("value", "retrain"), [(1.9, False), (2.0, False), (2.01, True), (3.0, True), (1.0, None)])
def test_less_than_half_of_the_gain_means_retrain(value: float, retrain: bool | None) -> None:
    assert read_fit(stored(value)).retrain is retrain


def trees(kept: int, expected: int = 20) -> str:
    """20 trees for the 100 steps, with 5 tokens from grafts."""
    counts = {"verified": 20, "tokens": 20 + kept + 5, "graft_tokens": 5, "expected_tokens": expected}
    return stored(3.0) + "".join(
        f'# TYPE voicepace_tree_{name} counter\nvoicepace_tree_{name}_total{{model="m"}} {count}\n'
        for name, count in counts.items()
    )


@pytest.mark.parametrize(("kept", "retrain"), [(20, False), (10, False), (9, True)])
def test_trees_are_compared_with_what_they_should_give_at_the_same_load(kept: int, retrain: bool) -> None:
    fit = read_fit(trees(kept))
    assert (fit.drafted, fit.expected, fit.retrain) == (kept / 20, 1.0, retrain)
    assert f"kept {kept / 20:.2f} tokens" in in_words(fit)


def test_a_load_at_which_no_tree_is_expected_to_pay_says_nothing_of_the_heads() -> None:
    assert read_fit(trees(4, expected=0)).retrain is None


def test_trees_of_heads_that_keep_no_value_are_not_judged() -> None:
    without = "\n".join(line for line in trees(0).splitlines() if "heads_acceptance_length" not in line) + "\n"
    assert read_fit(without).retrain is None


def test_before_the_first_step_nothing_is_divided() -> None:
    fit = read_fit("")
    assert (fit.steps, fit.mean, fit.retrain) == (0, None, None)
    assert "No step" in in_words(fit)


@pytest.fixture
def serving() -> Iterator[str]:
    """The address of a server whose /metrics says that the heads do not fit."""

    class Metrics(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/metrics" else 404)
            self.end_headers()
            self.wfile.write(stored(3.0).encode())

        def log_message(self, *args: object) -> None:
            """Nothing."""

    server = HTTPServer(("127.0.0.1", 0), Metrics)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_command_asks_the_service(serving: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["heads", "report", "--url", serving, "--json"]) == 1
    out = capsys.readouterr().out
    assert "train them again" in out
    assert '"retrain": true' in out.splitlines()[-1]


def test_a_service_that_does_not_answer_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["heads", "report", "--url", "http://127.0.0.1:9"]) == 2
    assert "http://127.0.0.1:9" in capsys.readouterr().err
