"""What a process knows of its parts: each says how it is and what it counts, and brings its table of metrics.

The pages of a process show what its parts give, one after another. A part does not know the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from headrace.web.metrics.metric import Kind, Metric

UP, STARTING, DOWN = "UP", "STARTING", "DOWN"

READY: Final = Metric(
    "ready", "headrace_ready", Kind.GAUGE, "Whether every part of the process is ready: 1 or 0."
)


@dataclass(slots=True)
class Contributor:
    """The process, or something of a part that has a state of its own.

    The process is ready if all its contributors are. It is alive without them: they start again by
    themselves, or stay offline because a restart could destroy evidence.
    """

    name: str
    status: str
    details: dict[str, str] = field(default_factory=dict)
    has_ready_parts: bool = True
    hindered: str = ""
    """What it cannot do now, and why; empty if there is nothing."""

    @property
    def ready(self) -> bool:
        return self.status == UP and self.has_ready_parts and not self.hindered

    @property
    def alive(self) -> bool:
        return self.status in {UP, STARTING}


class ProcessPart(Protocol):
    """A part of a process, as those who watch the process see it. Asked on its loop."""

    @property
    def metrics(self) -> Sequence[Metric]:
        """Its table: which of its statistics are metrics."""

    def status(self) -> str:
        """UP, STARTING or DOWN: whether it does its work at all, whatever hinders its contributors."""

    def statistics(self) -> Mapping[str, object]:
        """What it counts and holds now, by names that no other part of the process has."""

    def contributors(self) -> Sequence[Contributor]:
        """What of it has a state of its own; cheap enough for probes."""


def contributors_of(parts: Iterable[ProcessPart]) -> dict[str, Contributor]:
    """Return the state of everything that has one, by name."""
    return {found.name: found for part in parts for found in part.contributors()}


def status_of(parts: Iterable[ProcessPart]) -> str:
    """Return the state of a process with these parts: UP once all of them are."""
    found = {part.status() for part in parts}
    return next((status for status in (DOWN, STARTING) if status in found), UP)


def metrics_of(parts: Iterable[ProcessPart]) -> tuple[Metric, ...]:
    """Return the table of a process with these parts."""
    return (READY, *(metric for part in parts for metric in part.metrics))


def statistics_of(parts: Sequence[ProcessPart]) -> dict[str, object]:
    """Return what the metrics of these parts are read from."""
    found: dict[str, object] = {"ready": all(each.ready for each in contributors_of(parts).values())}
    for part in parts:
        found.update(part.statistics())
    return found
