"""What a load must meet, from a TOML file, and whether it did. Pure.

```toml
[at_most]
ttft_ms.p95 = 800
frame_lateness_ms.p99 = 10
calls.refused = 0
[at_least]
within_objective = 0.99
```
The names are those of the figures.
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


class BadObjective(Exception):
    """The file cannot be used; one line that names the key."""


@dataclass(frozen=True, slots=True)
class Limit:
    """One bound. `at_least` False: the figure may be at most `bound`."""

    figure: str
    bound: float
    at_least: bool

    @property
    def text(self) -> str:
        return f"{self.figure} {'>=' if self.at_least else '<='} {self.bound:g}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A limit, and the figure held against it; a figure that was not measured does not meet it."""

    limit: Limit
    value: float | None

    @property
    def met(self) -> bool:
        if self.value is None:
            return False
        return self.value >= self.limit.bound if self.limit.at_least else self.value <= self.limit.bound


CALM = (Limit("calls.lost", 0, False), Limit("calls.failed", 0, False), Limit("calls.refused", 0, False))
TEXT = (Limit("within_objective", 0.99, True), Limit("output_after_end", 0, False), *CALM)
AUDIO = (Limit("frame_lateness_ms.p99", 10, False), Limit("output_after_end", 0, False), *CALM)


def parse_objective(text: str) -> tuple[Limit, ...]:
    """The limits of a TOML file.

    Raises:
        BadObjective: naming what is wrong.
    """
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadObjective(f"not TOML: {error}") from None
    for name in tables:
        if name not in ("at_most", "at_least"):
            raise BadObjective(f"{name}: only the tables at_most and at_least are known")
        if not isinstance(tables[name], dict):
            raise BadObjective(f"{name}: must be a table")
    limits = [
        Limit(figure, bound, name == "at_least")
        for name, table in tables.items()
        for figure, bound in _leaves(name, table)
    ]
    if not limits:
        raise BadObjective("there is no limit in it")
    return tuple(limits)


def _leaves(path: str, table: Any) -> Iterator[tuple[str, float]]:
    if isinstance(table, Mapping):
        for name, inner in table.items():
            yield from _leaves(f"{path}.{name}", inner)
    elif isinstance(table, int | float) and not isinstance(table, bool):
        yield path.split(".", 1)[1], float(table)
    else:
        raise BadObjective(f"{path}: must be a number")


def judge(limits: tuple[Limit, ...], figures: Mapping[str, Any]) -> list[Verdict]:
    """Each limit against its figure.

    Raises:
        BadObjective: naming a figure that does not exist.
    """
    return [Verdict(limit, _value(figures, limit.figure)) for limit in limits]


def _value(figures: Mapping[str, Any], path: str) -> float | None:
    found: Any = figures
    for name in path.split("."):
        if not isinstance(found, Mapping) or name not in found:
            raise BadObjective(f"{path}: there is no such figure")
        found = found[name]
    if isinstance(found, Mapping):
        raise BadObjective(f"{path}: name one of {', '.join(found)}")
    return found if found is None else float(found)
