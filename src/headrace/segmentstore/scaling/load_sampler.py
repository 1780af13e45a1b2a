"""Samples the counters of all active segments with a rate policy, and reports those that are hot or cold.

Nothing is done per append: a segment's durable length and event count are read every few seconds. Memory and
time are proportional to the segments with a rate policy.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from headrace.limits import KIB
from headrace.model import attributes as attr
from headrace.model.names import find_stream_segment
from headrace.model.policies import ScalingKind
from headrace.model.segment_report import Load, SegmentReport
from headrace.runtime.clock import Clock
from headrace.runtime.loop_budget import LoopBudget
from headrace.segmentstore.container.container import SegmentContainer
from headrace.segmentstore.container.merged_loads import MergedLoad
from headrace.segmentstore.hosting.registry import ContainerRegistry
from headrace.segmentstore.scaling.config import ScalingConfig
from headrace.segmentstore.scaling.report_queue import ReportQueue
from headrace.segmentstore.scaling.traffic_meter import TrafficMeter
from headrace.segmentstore.state.segment_state import SegmentState

_AT_ONCE: Final = 250
"""Segments sampled before yielding to the loop: each takes up to 4 us."""

_INACTIVE_MAX: Final = 50_000
"""Inactive segments of one container whose silence is still to be reported; more are forgotten."""


@dataclass(slots=True, eq=False)
class _Metered:
    """One segment with its counters at the last sample."""

    state: SegmentState
    kind: int
    target_rate: int
    meter: TrafficMeter
    length: int
    events: int
    in_flight: list[MergedLoad] = field(default_factory=list)
    """Merges that were not durable at the last sample."""


@dataclass(slots=True)
class SamplerStatistics:
    """Segments now, and the last sample of all."""

    metered: int
    inactive: int
    sample_ms: float
    """How long it took, other work on the loop included."""


class LoadSampler:
    """All containers of one segment store. Used on its loop."""

    def __init__(
        self, registry: ContainerRegistry, reports: ReportQueue, clock: Clock, config: ScalingConfig
    ) -> None:
        self._registry = registry
        self._reports = reports
        self._clock = clock
        self._config = config
        self._metered: dict[int, dict[int, _Metered]] = {}
        self._inactive = 0
        self._sample_ms = 0.0

    async def run(self) -> None:
        """Sample until cancelled."""
        while True:
            await asyncio.sleep(self._config.sample_s)
            await self.sample()

    async def sample(self) -> None:
        """Sample every segment once."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        running = self._registry.running()
        self._metered = {
            container.container_id: self._metered.get(container.container_id, {}) for container in running
        }
        budget = LoopBudget(_AT_ONCE)
        inactive = 0
        for container in running:
            metered = self._metered[container.container_id]
            await self._sample_active(container, metered, budget)
            inactive += await self._sample_others(container, metered, budget)
        self._inactive = inactive
        self._sample_ms = 1000 * (loop.time() - started)

    async def _sample_active(
        self, container: SegmentContainer, metered: dict[int, _Metered], budget: LoopBudget
    ) -> None:
        now, now_ms = asyncio.get_running_loop().time(), self._clock.now_ms()
        merged = container.merged_loads.take()
        for state in list(container.state.by_id.values()):
            await budget.spend()
            values = state.attributes.durable
            kind = values.get(attr.SCALE_POLICY_TYPE, 0)
            known = metered.get(state.segment_id)
            if kind <= ScalingKind.FIXED or not state.is_live or state.sealed:
                if known is not None:
                    del metered[state.segment_id]
                continue
            target_rate = values.get(attr.SCALE_POLICY_RATE, 0)
            if known is None or (known.kind, known.target_rate) != (kind, target_rate):
                if target_rate > 0 and find_stream_segment(state.name) is not None:
                    metered[state.segment_id] = self._meter(state, kind, target_rate, now, now_ms)
                continue
            known.state = state
            known.in_flight += merged.get(state.segment_id, ())
            amount, by_transactions = _arrived(known, values.get(attr.EVENT_COUNT, 0), now_ms)
            known.meter.sample(now, amount, by_transactions)
            self._judge(known, now, now_ms)

    async def _sample_others(
        self, container: SegmentContainer, metered: dict[int, _Metered], budget: LoopBudget
    ) -> int:
        """Inactive segments are silent; those that are gone are forgotten. Returns how many are inactive."""
        now, now_ms = asyncio.get_running_loop().time(), self._clock.now_ms()
        active = container.state.by_id
        inactive = 0
        for segment_id, known in list(_without(metered, active)):
            await budget.spend()
            inactive += 1
            known.meter.sample(now, 0.0)
            is_gone = not known.state.evicted or known.state.sealed or not known.state.is_live
            if is_gone or inactive > _INACTIVE_MAX or self._judge(known, now, now_ms) is Load.SILENT:
                metered.pop(segment_id, None)
                inactive -= 1
        return inactive

    def _meter(self, state: SegmentState, kind: int, target_rate: int, now: float, now_ms: int) -> _Metered:
        target = float(target_rate * (KIB if kind == ScalingKind.KILOBYTES_PER_SECOND else 1))
        values = state.attributes.durable
        # Before a restart, an eviction or a change of the policy it may have had a meter already.
        age_ms = now_ms - values.get(attr.CREATION_TIME, 0)
        meter = TrafficMeter(self._config, target, now, may_be_marked=age_ms >= 1000 * self._config.cold_s)
        events = values.get(attr.EVENT_COUNT, 0)
        return _Metered(state, kind, target_rate, meter, state.durable_length, events)

    def _judge(self, known: _Metered, now: float, now_ms: int) -> Load | None:
        found = known.meter.judge(now, only_hot=self._reports.is_full)
        if found is None:
            return None
        report = SegmentReport(
            known.state.name, found.load, now_ms, found.pieces, found.permille, found.valid_ms
        )
        self._reports.put(report)
        return found.load

    def statistics(self) -> SamplerStatistics:
        metered = sum(len(found) for found in self._metered.values())
        return SamplerStatistics(metered, self._inactive, self._sample_ms)


def _without(metered: dict[int, _Metered], active: dict[int, SegmentState]) -> Iterator[tuple[int, _Metered]]:
    return (each for each in metered.items() if each[0] not in active)


def _arrived(known: _Metered, events: int, now_ms: int) -> tuple[float, list[tuple[float, float]]]:
    """Return what appends and what each transaction added since the last sample, in the target's unit."""
    length = known.state.durable_length
    plain = length - known.length if known.kind == ScalingKind.KILOBYTES_PER_SECOND else events - known.events
    known.length, known.events = length, events
    if not known.in_flight:
        return float(max(0, plain)), []
    merged: list[tuple[float, float]] = []
    durable = [load for load in known.in_flight if load.end <= length]
    known.in_flight = [load for load in known.in_flight if load.end > length]
    for load in durable:
        lifetime_s = max(0, now_ms - load.created_ms) / 1000
        if known.kind == ScalingKind.KILOBYTES_PER_SECOND:
            plain -= load.bytes
            merged.append((lifetime_s, float(load.bytes)))
        else:
            merged.append((lifetime_s, float(load.events)))
    return float(max(0, plain)), merged
