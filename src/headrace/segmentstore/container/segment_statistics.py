"""Counts the segments of a container, their activations and evictions."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.segmentstore.container.evictions import Evictions
from headrace.segmentstore.container.segment_catalogue import SegmentCatalogue
from headrace.segmentstore.container.segment_directory import SegmentDirectory
from headrace.segmentstore.state.container_state import ContainerState


@dataclass(slots=True)
class SegmentStatistics:
    """Current gauges, and counts since the start."""

    active: int
    active_max: int
    departing: int
    """Retired segments."""
    catalogue_rows: int
    """At most how many rows the catalogue has, those of active segments included; -1 while not known."""
    activations: int
    activations_failed: int
    activations_waiting: int
    eviction_runs: int
    eviction_runs_forced: int
    evicted: int


def count_segments(
    state: ContainerState, catalogue: SegmentCatalogue, directory: SegmentDirectory, evictions: Evictions
) -> SegmentStatistics:
    """Collect the counts of the parts of a container."""
    activations = directory.activations
    return SegmentStatistics(
        active=len(state.by_name),
        active_max=state.active_max,
        departing=len(state.retired),
        catalogue_rows=catalogue.count(),
        activations=activations.started,
        activations_failed=activations.failed,
        activations_waiting=len(activations),
        eviction_runs=evictions.started,
        eviction_runs_forced=evictions.forced,
        evicted=evictions.evicted,
    )
