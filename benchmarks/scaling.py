"""A day of a stream that scales by itself, as a fluid, in virtual time: what its load makes of its segments.

    python -m benchmarks.scaling [--scales | --cost]

The meter of the segment store and the decisions of the controller are the real ones; a report takes a second,
a scale another. Nothing else of a server runs. The same seed gives the same day.
``--scales`` prints each scale; ``--cost`` what a sample of 25,000 active segments takes of the loop, instead.
"""

import asyncio
import math
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from headrace.controller.policies.auto_scale import decide
from headrace.controller.policies.scale_request import plan_scale
from headrace.controller.store.rows.epoch_row import EpochRecord, SegmentRecord
from headrace.controller.store.rows.load_marks_row import LoadMarksRow
from headrace.controller.store.rows.stream_row import StreamRow, StreamState
from headrace.controller.streams.epochs import scaled_epoch
from headrace.model import attributes as attr
from headrace.model.key_space import FULL_RANGE, split_evenly
from headrace.model.names import segment_name
from headrace.model.policies import ScalingPolicy, StreamConfiguration
from headrace.model.segment_report import SegmentReport
from headrace.runtime.clock import SystemClock
from headrace.segmentstore.container.merged_loads import MergedLoads
from headrace.segmentstore.scaling.config import ScalingConfig
from headrace.segmentstore.scaling.load_sampler import LoadSampler
from headrace.segmentstore.scaling.report_queue import ReportQueue
from headrace.segmentstore.scaling.traffic_meter import TrafficMeter
from headrace.segmentstore.state.container_state import ContainerState
from headrace.segmentstore.state.segment_attributes import SegmentAttributes
from headrace.segmentstore.state.segment_state import SegmentState

TARGET = 1000.0
"""Events per second and segment."""
DAY_S = 86_400
REPORT_S = 1.0
SCALE_S = 1.0
NOISE = 0.1
"""Relative deviation of the load of one segment in one sample."""


@dataclass(frozen=True)
class Day:
    """One kind of load: events per second at a time, and how much of it has few keys."""

    name: str
    rate: Callable[[float], float]
    hot_keys: tuple[tuple[float, float], ...] = ()
    """Positions with their fraction of the load; the rest is uniform."""
    commit_s: float = 0.0
    """Events arrive by transactions that are committed so often; 0: one by one."""
    scale_factor: int = 10
    segments: int = 1
    seconds: int = DAY_S


@dataclass
class Course:
    """What happened in a day."""

    day: Day
    scales: list[tuple[float, str, int]] = field(default_factory=list)
    """(time, split or merge, segments after it)"""
    segments_max: int = 1
    segments_end: int = 1
    overload_s: float = 0.0
    """The longest time in which some segment had more than 1.5 times its target, averaged over a minute."""

    @property
    def splits(self) -> int:
        return sum(kind == "split" for _, kind, _ in self.scales)

    @property
    def merges(self) -> int:
        return sum(kind == "merge" for _, kind, _ in self.scales)

    def first_after(self, time_s: float, kind: str) -> float:
        """Seconds from a time to the first scale of a kind."""
        return next((at - time_s for at, found, _ in self.scales if at >= time_s and found == kind), math.inf)

    def settled_after(self, time_s: float, within_s: float = 3600.0) -> float:
        """Seconds from a time to the last scale within an hour of it."""
        return max((at - time_s for at, _, _ in self.scales if time_s <= at < time_s + within_s), default=0.0)


STEP_AT_S = 7200.0
DAYS = (
    Day("flat, 3.3 times the target", lambda _: 3300.0),
    Day("daily sine, 0.2 to 8 times", lambda t: 4100.0 - 3900.0 * math.cos(2 * math.pi * t / DAY_S)),
    Day("bursts: 10 times for 5 s every 5 min", lambda t: 10_000.0 if t % 300 < 5 else 300.0),
    Day("bursts: 4 times for 1 min every 8 min", lambda t: 4000.0 if t % 480 < 60 else 300.0),
    Day("tenfold step, 0.9 to 9 times", lambda t: 9000.0 if t >= STEP_AT_S else 900.0),
    Day("tenfold step, factor 2", lambda t: 9000.0 if t >= STEP_AT_S else 900.0, scale_factor=2),
    Day("tenfold step and back after 2 h", lambda t: 9000.0 if 0 <= t - STEP_AT_S < 7200 else 900.0),
    Day(
        "five times, 80 % of it on three keys",
        lambda _: 5000.0,
        hot_keys=((0.1234, 0.4), (0.51, 0.25), (0.77, 0.15)),
        scale_factor=4,
    ),
    Day("transactions of 1 min, 2.4 times", lambda _: 2400.0, commit_s=60.0),
    Day("transactions of 1 min, 0.7 times", lambda _: 700.0, commit_s=60.0),
    Day("transactions of 10 min, 0.7 times", lambda _: 700.0, commit_s=600.0),
)


class FluidStream:
    """One stream with its meters."""

    def __init__(self, day: Day, config: ScalingConfig, seed: int) -> None:
        self.day = day
        self.config = config
        self.random = random.Random(seed)
        pieces = split_evenly(FULL_RANGE, day.segments)
        self.row = StreamRow(
            uid=bytes(16),
            created_ms=0,
            state=StreamState.ACTIVE,
            config=StreamConfiguration(
                scaling=ScalingPolicy.by_event_rate(int(TARGET), day.scale_factor, day.segments)
            ),
            epoch=EpochRecord(0, 0, 0, tuple(SegmentRecord(i, 0, each) for i, each in enumerate(pieces))),
        )
        self.marks = LoadMarksRow()
        self.course = Course(day)
        self.meters: dict[int, TrafficMeter] = {}
        self.unmerged: dict[int, float] = {}
        """Events in open transactions, by segment."""
        self.begun_s = 0.0
        self.loads: dict[int, float] = {}
        self.hot_since: dict[int, float] = {}
        self.sent: list[tuple[float, int, SegmentReport]] = []
        self.busy_until = 0.0

    def fraction_of(self, segment: SegmentRecord) -> float:
        whole = segment.key_range
        keyed = sum(part for _, part in self.day.hot_keys)
        on_keys = sum(part for position, part in self.day.hot_keys if whole.receives(position))
        return (1.0 - keyed) * (whole.high - whole.low) + on_keys

    def run(self) -> Course:
        step, now = self.config.sample_s, 0.0
        while now < self.day.seconds:
            now += step
            commits = bool(self.day.commit_s) and now % self.day.commit_s < step
            for segment in self.row.epoch.segments:
                self.sample(segment, now, step, commits=commits)
            if commits:
                self.begun_s = now
            while self.sent and self.sent[0][0] <= now:
                _, segment_id, report = self.sent.pop(0)
                self.act(segment_id, report, now)
        self.course.segments_end = len(self.row.epoch.segments)
        return self.course

    def sample(self, segment: SegmentRecord, now: float, step: float, *, commits: bool) -> None:
        noise = max(0.0, self.random.gauss(1.0, NOISE))
        amount = step * self.day.rate(now) * self.fraction_of(segment) * noise
        self.note_overload(segment, now, amount / step, step)
        meter = self.meters.get(segment.segment_id)
        if meter is None:
            self.meters[segment.segment_id] = TrafficMeter(self.config, TARGET, now)
            self.unmerged[segment.segment_id] = amount if self.day.commit_s else 0.0
            return
        if self.day.commit_s:
            self.unmerged[segment.segment_id] += amount
            merged = [(now - self.begun_s, self.unmerged[segment.segment_id])] if commits else []
            self.unmerged[segment.segment_id] *= not commits
            meter.sample(now, 0.0, merged)
        else:
            meter.sample(now, amount)
        found = meter.judge(now)
        if found is not None:
            at_ms = int(1000 * now)
            report = SegmentReport("s", found.load, at_ms, found.pieces, found.permille, found.valid_ms)
            self.sent.append((now + REPORT_S, segment.segment_id, report))

    def note_overload(self, segment: SegmentRecord, now: float, rate: float, step: float) -> None:
        load = self.loads.get(segment.segment_id, rate)
        self.loads[segment.segment_id] = load = load + (1.0 - math.exp(-step / 60.0)) * (rate - load)
        alone = max((part for at, part in self.day.hot_keys if segment.key_range.receives(at)), default=0.0)
        if load <= 1.5 * max(TARGET, alone * self.day.rate(now)):  # what one key brings cannot be divided
            self.hot_since.pop(segment.segment_id, None)
            return
        since = self.hot_since.setdefault(segment.segment_id, now)
        self.course.overload_s = max(self.course.overload_s, now - since)

    def act(self, segment_id: int, report: SegmentReport, now: float) -> None:
        if now < self.busy_until:
            self.sent.append((now + REPORT_S, segment_id, report))
            return
        decision = decide(self.row, self.marks, segment_id, report, int(1000 * now))
        self.marks = decision.marks
        if not decision.sealed:
            return
        plan = plan_scale(self.row, decision.sealed, decision.ranges, int(1000 * now))
        self.row = replace(self.row, epoch=scaled_epoch(self.row.epoch, plan))
        for sealed in decision.sealed:
            self.meters.pop(sealed, None)
            self.hot_since.pop(sealed, None)
        self.busy_until = now + SCALE_S
        count = len(self.row.epoch.segments)
        self.course.segments_max = max(self.course.segments_max, count)
        kind = "split" if len(decision.ranges) > len(decision.sealed) else "merge"
        self.course.scales.append((now, kind, count))


def run_day(day: Day, config: ScalingConfig | None = None, seed: int = 1) -> Course:
    """Run one day."""
    return FluidStream(day, config or ScalingConfig(), seed).run()


def table(courses: list[Course]) -> str:
    """The figures of some days, as the page about scaling shows them."""
    columns = (
        "Load of a day, in multiples of the target",
        "Splits",
        "Merges",
        "Segments at most, at the end",
    )
    columns += ("Longest overload", "First split after the step")
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for course in courses:
        step = "step" in course.day.name
        reaction = f"{course.first_after(STEP_AT_S, 'split'):.0f} s" if step else "-"
        segments = f"{course.segments_max}, {course.segments_end}"
        lines.append(
            f"| {course.day.name} | {course.splits} | {course.merges} | {segments} "
            f"| {course.overload_s:.0f} s | {reaction} |"
        )
    return "\n".join(lines)


class ManySegments:
    """A registry of one container whose segments have a target rate and nothing else."""

    def __init__(self, count: int) -> None:
        policy = {attr.SCALE_POLICY_TYPE: 1, attr.SCALE_POLICY_RATE: 100}
        self.container_id = 0
        self.merged_loads = MergedLoads()
        self.state = ContainerState(0)
        for index in range(count):
            segment = SegmentState(
                index, segment_name("s", f"t{index}", 0), attributes=SegmentAttributes(policy)
            )
            self.state.insert(segment)

    def running(self) -> list["ManySegments"]:
        return [self]


async def print_cost(count: int = 25_000, samples: int = 9) -> None:
    many, config = ManySegments(count), ScalingConfig()
    sampler = LoadSampler(many, ReportQueue(None, config), SystemClock(), config)  # type: ignore[arg-type]
    await sampler.sample()
    for name, growth in (("idle", 0), ("growing", 1000)):
        costs = []
        for _ in range(samples):
            for segment in many.state.by_id.values():
                segment.durable_length += growth
            await asyncio.sleep(0.01)
            before = time.process_time()
            await sampler.sample()
            costs.append(time.process_time() - before)
        print(f"{count} {name} segments: {1000 * statistics.median(costs):.0f} ms of CPU per sample")


if __name__ == "__main__":
    if "--cost" in sys.argv:
        asyncio.run(print_cost())
        sys.exit()
    courses = [run_day(day) for day in DAYS]
    print(table(courses))
    if "--scales" in sys.argv:
        for course in courses:
            print(course.day.name, [(round(at), kind, count) for at, kind, count in course.scales])
