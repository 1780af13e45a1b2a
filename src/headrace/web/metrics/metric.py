"""One metric: its name, its kind, and the field of the statistics that it is read from. Pure.

A path names the field from the statistics of the whole process on, with dots between its parts. A part in
braces stands for every member of a mapping, and is a label: ``chunks.calls.{call}.bytes``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final


class Kind(Enum):
    """What a metric may do: a counter only grows, a gauge does not; a histogram counts seconds by range."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


_UNITS: Final = ("seconds", "bytes")


@dataclass(frozen=True, slots=True)
class Metric:
    """A row of the table. The value of a list is its length, of a text whether it has any."""

    path: str
    name: str
    """Without the ``_total`` of a counter."""

    kind: Kind
    help: str
    scale: float = 1.0
    """What the field is multiplied by, for a base unit."""

    sum_field: str = ""
    """Of a histogram: the field beside it with all seconds."""

    @property
    def unit(self) -> str:
        """The base unit, which ends the name; empty for a number of things."""
        return next((unit for unit in _UNITS if self.name.endswith(f"_{unit}")), "")

    @property
    def exposed_name(self) -> str:
        """The name that queries use; those of a histogram add ``_bucket``, ``_sum`` and ``_count``."""
        return f"{self.name}_total" if self.kind is Kind.COUNTER else self.name

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the labels, in their order."""
        return tuple(part[1:-1] for part in self.path.split(".") if part.startswith("{"))


Row = tuple[str, str, str]
"""The last part of the path, the last part of the name, and the help."""


def counters(path: str, prefix: str, *rows: Row) -> list[Metric]:
    """Return the counters of one part."""
    return [Metric(f"{path}.{field}", f"{prefix}_{name}", Kind.COUNTER, text) for field, name, text in rows]


def gauges(path: str, prefix: str, *rows: Row) -> list[Metric]:
    """Return the gauges of one part."""
    return [Metric(f"{path}.{field}", f"{prefix}_{name}", Kind.GAUGE, text) for field, name, text in rows]


def histogram(path: str, sum_field: str, name: str, text: str) -> Metric:
    """Return the histogram of a field with counts by ``LATENCY_EDGES_S``."""
    return Metric(path, name, Kind.HISTOGRAM, text, sum_field=sum_field)
