"""What a dashboard is made of. A panel is one question, with its queries, unit and a description of how to read the answer.

Queries hold `$job` and `$__rate_interval`, which Grafana fills in; `Query.filled` does the same for checks and pictures.
"""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["lines", "heatmap", "number"]

OBJECTIVE_S = 0.020
JOB = 'job=~"$job"'
PACED = f'{JOB},surface!="openai"'


@dataclass(frozen=True, slots=True)
class Query:
    """A PromQL expression and the legend of its series."""

    expr: str
    legend: str
    right_axis: bool = False

    def filled(self, job: str = ".+", window: str = "1m") -> str:
        """The expression as Grafana would send it."""
        return self.expr.replace("$job", job).replace("$__rate_interval", window)


@dataclass(frozen=True, slots=True)
class Panel:
    """Attributes:
    unit: one of Grafana's unit ids; `right_unit` of the series on the right axis.
    line: a value to draw across, in the same unit.
    needs_gpu: reads NVIDIA's exporter and not the service.
    """

    question: str
    unit: str
    description: str
    queries: tuple[Query, ...]
    kind: Kind = "lines"
    line: float | None = None
    right_unit: str | None = None
    needs_gpu: bool = False
    width: int = 12


@dataclass(frozen=True, slots=True)
class Board:
    """A dashboard: rows of panels under a title."""

    uid: str
    title: str
    description: str
    rows: tuple[tuple[str, tuple[Panel, ...]], ...]

    @property
    def panels(self) -> tuple[Panel, ...]:
        return tuple(panel for _, panels in self.rows for panel in panels)


def quantile(q: float, metric: str, match: str = JOB, by: str = "le") -> str:
    """The expression of one quantile of a histogram, aggregated by `by`."""
    return f"histogram_quantile({q}, sum by ({by}) (rate({metric}_bucket{{{match}}}[$__rate_interval])))"
