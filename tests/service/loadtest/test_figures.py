import json
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.call_report import TurnTimes
from service.loadtest.figures import corrected, figures, held_within
from service.loadtest.html_report import html_report
from service.loadtest.objective import TEXT, judge
from service.loadtest.plots import Curve, Tick, line_plot
from service.loadtest.record import CallRecord, WorkerResult
from service.loadtest.scenario import Scenario
from service.loadtest.series import distributions, timeline
from service.loadtest.summary import summary_lines

SCENARIO = Scenario(calls=2, ramp_s=5.0, duration_s=10.0)


def reply(asked: float, tokens: list[float], sent: float | None = None) -> TurnTimes:
    turn = TurnTimes(1, asked_s=asked, sent_s=asked if sent is None else sent)
    for at in tokens:
        turn.token("x", at)
    turn.end("stop", {}, tokens[-1])
    return turn


def call(*turns: TurnTimes, ready: float = 1.0, ended: float = 14.0, outcome: str = "done") -> CallRecord:
    return CallRecord(due_s=0.9, outcome=outcome, ready_s=ready, ended_s=ended, turns=list(turns))


def result(*records: CallRecord) -> WorkerResult:
    return WorkerResult(0.0, 15.0, 3.0, list(records), [0.001, 0.002])


def test_figures_of_a_known_load() -> None:
    ramp = reply(3.0, [4.0, 9.0])  # asked during the ramp: left out
    late = reply(6.0, [6.5, 6.518, 6.568], sent=6.2)
    other = reply(7.0, [7.1, 7.115])
    found = figures([result(call(ramp, late), call(other, ended=10.0))], SCENARIO)
    assert found["replies"] == 2
    assert found["ttft_ms"]["max"] == 500.0
    assert found["ttft_sent_ms"]["max"] == 300.0
    assert found["delivered_gap_ms"]["max"] == 50.0
    assert found["within_objective"] == pytest.approx(2 / 3)
    assert found["calls"]["held_mean"] == 1.4  # one for 9 s and one for 5 s of the 10
    assert found["calls"]["held_max"] == 2
    assert found["client"]["cpu_share"] == 0.2
    assert found["tokens_per_s"] == 0.5
    assert found["underruns"] is None


def test_records_out_of_order_enter_no_figure() -> None:
    wrong = reply(8.0, [7.0, 8.0])
    found = figures([result(call(wrong))], SCENARIO)
    assert found["replies"] == 0
    assert found["disordered"] == {"first token before sent": 1}


def test_output_after_the_end_is_counted() -> None:
    turn = reply(6.0, [6.1])
    turn.token("late", 6.2)
    found = figures([result(call(turn))], SCENARIO)
    assert found["output_after_end"] == 1
    assert not judge(TEXT, found)[1].met


def test_refusals_by_status() -> None:
    refused = CallRecord(1.0, "refused", status=503)
    found = figures([result(refused, refused, call())], SCENARIO)
    assert found["calls"]["refused"] == 2
    assert found["calls"]["refused_by_status"] == {"503": 2}
    assert found["calls"]["held_max"] == 1


def test_a_long_gap_stands_for_those_it_swallowed() -> None:
    assert corrected([0.015, 0.1]) == pytest.approx([0.015, 0.1, 0.08, 0.06, 0.04, 0.02])


@given(st.lists(st.tuples(st.floats(0, 20), st.floats(0, 20)), max_size=8))
def test_held_is_what_a_count_finds(spans: list[tuple[float, float]]) -> None:
    records = [CallRecord(0.0, ready_s=min(span), ended_s=max(span)) for span in spans]
    mean, most = held_within(records, 5.0, 15.0)
    lengths = [max(0.0, min(15.0, max(span)) - max(5.0, min(span))) for span in spans]
    assert mean == pytest.approx(sum(lengths) / 10.0)
    assert mean <= most + 1e-9
    assert most <= len(spans)


def outcome(*results: WorkerResult) -> dict[str, Any]:
    found = {**figures(results, SCENARIO), "service": {"cpu_share": 0.5}}
    verdicts = judge(TEXT, found)
    return {
        "dialect": "native",
        "audio": False,
        "scenario": {"calls": 2, "ramp_s": 5.0, "questions": ["<b>&"]},
        "machine": {},
        "figures": found,
        "objective": [{"limit": v.limit.text, "value": v.value, "met": v.met} for v in verdicts],
        "met": all(v.met for v in verdicts),
        "timeline": timeline(results),
        "distributions": distributions(results, SCENARIO),
    }


class Page(HTMLParser):
    """Notes what a page would fetch, and which tags are left open."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fetched: list[str] = []
        self.svgs = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.svgs += tag == "svg"
        self.fetched += [value or "" for name, value in attrs if name in ("src", "href", "action")]
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_and_needs_nothing_else() -> None:
    turn = TurnTimes(1, asked_s=6.0, sent_s=6.0)
    for number in range(5):
        turn.token("x", 6.1 + number * 0.02)
        turn.audio_frame(6.1 + number * 0.02)
    turn.end("stop", {}, 7.0)
    page = Page()
    whole = html_report({**outcome(result(call(turn))), "most_calls": 2, "tried": [{"calls": 2, "met": True}]})
    page.feed(whole)
    assert page.open == []
    assert page.fetched == []
    assert page.svgs == 6
    assert "http" not in whole
    assert "url(" not in whole
    assert "&lt;b&gt;&amp;" in whole


def test_a_load_in_which_nothing_happened_can_still_be_shown() -> None:
    nothing = outcome(WorkerResult(0.0, 0.0))
    assert not nothing["met"]
    assert "not measured" in "\n".join(summary_lines(nothing))
    html_report(nothing)
    json.dumps(nothing, allow_nan=False)


def test_timeline_puts_gaps_where_they_ended() -> None:
    seconds = timeline([result(call(reply(6.0, [6.9, 7.1, 7.2])))])
    assert [second["second"] for second in seconds] == list(range(15))
    assert seconds[7]["gap_p99_ms"] == 200.0
    assert seconds[6]["gap_p99_ms"] is None
    assert seconds[0]["calls"] == 0
    assert seconds[2]["calls"] == 1


def test_distributions_end_at_the_largest_sample() -> None:
    found = distributions([result(call(reply(6.0, [6.1, 6.11, 6.2])))], SCENARIO)
    assert found["delivered_gap_ms"][-1] == (1.0, 90.0)
    shares = [share for share, _ in found["delivered_gap_ms"]]
    assert shares == sorted(shares)
    assert "first_audio_ms" not in found


@given(st.lists(st.tuples(st.floats(0, 100), st.none() | st.floats(0, 1e6)), max_size=20))
def test_plots_are_well_formed_and_inside_their_frame(points: list[tuple[float, float | None]]) -> None:
    plot = line_plot([Curve("a < b", points)], [Tick(0, "0")], "x & y", "ms", (20.0, "20 ms"))
    root = ElementTree.fromstring(f"<div>{plot}</div>")
    for path in root.iter("path"):
        numbers = path.attrib["d"].replace("M", " ").replace("L", " ").replace("H", " ").replace("V", " ").split()
        assert all(-0.1 <= float(number) <= 640.1 for number in numbers)
