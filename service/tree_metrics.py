"""What trees give, read from the engine's own counts at each scrape."""

from collections.abc import Callable, Iterable, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

_PREFIX = "voicepace_tree"
_COUNTS = {
    "trees": ("verified", "Trees verified, one for each request and step that had one."),
    "nodes": ("nodes", "Nodes verified."),
    "tokens": ("tokens", "Tokens that these trees gave, bonus tokens included."),
    "expected_tokens": (
        "expected_tokens",
        "Drafted tokens that the accuracies kept with the heads let expect at the same load.",
    ),
    "side_paths": ("side_paths", "Trees of which a path was accepted that is not the principal chain."),
    "grafts": ("grafts", "Trees with a continuation found in the text grafted on."),
    "graft_tokens": ("graft_tokens", "Tokens accepted from these grafts."),
    "tree_steps": ("steps", "Engine steps with at least one tree."),
    "mixed_steps": ("mixed_steps", "Engine steps with trees and other rows beside them."),
    "moves": ("moves", "Trees whose accepted path had to be moved in the cache."),
    "draft_failures": ("draft_failures", "Engine steps whose drafting failed; they went on without drafts."),
}
_SECONDS = ("draft", "step", "forward", "attention", "walk", "commit")


class TreeMetrics:
    """A collector of prometheus_client; nothing is exported where the engine has no trees.

    Args:
        model: value of the `model` label.
        read: the counts of `engine.tree.tally`, None without trees.
    """

    def __init__(self, model: str, read: Callable[[], Mapping[str, float] | None]) -> None:
        self._model = model
        self._read = read

    def describe(self) -> Iterable[Metric]:
        """Nothing is known before a scrape."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """The counts as they are now."""
        numbers = self._read()
        if numbers is None:
            return
        for key, (name, text) in _COUNTS.items():
            family = CounterMetricFamily(f"{_PREFIX}_{name}", text, labels=("model",))
            family.add_metric((self._model,), numbers[key])
            yield family
        accepted = CounterMetricFamily(
            f"{_PREFIX}_accepted", "Trees of which just this many nodes were accepted.", labels=("model", "depth")
        )
        for key, value in numbers.items():
            if key.startswith("depth_"):
                accepted.add_metric((self._model, key.removeprefix("depth_")), value)
        yield accepted
        seconds = CounterMetricFamily(
            f"{_PREFIX}_seconds",
            "Time of the engine core in steps with trees and their parts.",
            labels=("model", "part"),
        )
        for part in _SECONDS:
            seconds.add_metric((self._model, part), numbers[f"{part}_s"])
        yield seconds
        size = GaugeMetricFamily(f"{_PREFIX}_size", "Nodes of the latest trees, a running mean.", labels=("model",))
        size.add_metric((self._model,), numbers["size"])
        yield size
