"""Reads the metrics from the statistics, as the library that writes them expects them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from headrace.runtime.latency import LATENCY_EDGES_S
from headrace.web.metrics.metric import Kind, Metric

_EDGES: Final = (*map(floatToGoString, LATENCY_EDGES_S), "+Inf")

Tree = dict[str, Any]
"""By part of the path: what is below it, at its end the metric."""


class StatisticsCollector(Collector):
    """All metrics of a table that ``find_statistics`` has values for. Used on the loop of the parts."""

    def __init__(
        self, metrics: Sequence[Metric], find_statistics: Callable[[], Mapping[str, object]], version: str
    ) -> None:
        self._metrics = metrics
        self._find_statistics = find_statistics
        self._version = version
        self._tree = _tree_of(metrics)

    def describe(self) -> Iterable[Family]:
        """Name no metrics: they are not looked for twice when the collector is registered."""
        return ()

    def collect(self) -> Iterator[Family]:
        """Yield each metric that has a value now, in the order of the table."""
        yield InfoMetricFamily("headrace_build", "The version of this server.", {"version": self._version})
        families = {id(metric): _family_of(metric) for metric in self._metrics}
        _walk(self._tree, self._find_statistics(), (), families)
        yield from (family for family in families.values() if family.samples)


def _tree_of(metrics: Iterable[Metric]) -> Tree:
    tree: Tree = {}
    for metric in metrics:
        *parts, last = metric.path.split(".")
        node = tree
        for part in parts:
            node = node.setdefault(part, {})
        assert last not in node, metric.path
        node[last] = metric
    return tree


def _family_of(metric: Metric) -> Family:
    match metric.kind:
        case Kind.COUNTER:
            return CounterMetricFamily(metric.name, metric.help, labels=metric.labels, unit=metric.unit)
        case Kind.GAUGE:
            return GaugeMetricFamily(metric.name, metric.help, labels=metric.labels, unit=metric.unit)
        case Kind.HISTOGRAM:
            return HistogramMetricFamily(metric.name, metric.help, labels=metric.labels, unit=metric.unit)


def _walk(tree: Tree, value: Any, labels: tuple[str, ...], families: Mapping[int, Any]) -> None:
    for name, below in tree.items():
        if name.startswith("{"):
            found = [(member, (*labels, str(key))) for key, member in value.items()]
        else:
            found = [(_member(value, name), labels)]
        for member, given in found:
            if member is None:
                continue  # a part that does not run, or has not begun
            if isinstance(below, dict):
                _walk(below, member, given, families)
            elif below.kind is Kind.HISTOGRAM:
                counts = zip(_EDGES, accumulate(member), strict=True)
                families[id(below)].add_metric(given, list(counts), _member(value, below.sum_field))
            else:
                families[id(below)].add_metric(given, _number(member) * below.scale)


def _member(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name)


def _number(value: Any) -> float:
    if isinstance(value, int | float):
        return float(value)
    return float(bool(value) if isinstance(value, str) else len(value))
