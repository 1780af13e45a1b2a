"""A stream in memory: events with keys, segments that split and merge. What the planner is judged by."""

from collections import defaultdict
from itertools import pairwise


class StreamModel:
    """Segments of (low, high) key ranges over 0..width, each a list of events (key, number, size)."""

    def __init__(self, width=8, segments=1, first=0):
        self.width = width
        bounds = [width * index // segments for index in range(segments + 1)]
        self.ranges = dict(enumerate(pairwise(bounds), first))
        self.events = {segment_id: [] for segment_id in self.ranges}
        self.first = dict.fromkeys(self.ranges, 0)
        self.sealed = set()
        self.heirs = defaultdict(dict)
        self.epoch = 0
        self.numbers = defaultdict(int)

    @property
    def active(self):
        return sorted(self.events.keys() - self.sealed)

    def length(self, segment_id):
        return sum(size for _, _, size in self.events[segment_id])

    def append(self, key, size):
        segment_id = next(each for each in self.active if self._owns(each, key))
        self.events[segment_id].append((key, self.numbers[key], size))
        self.numbers[key] += 1

    def _owns(self, segment_id, key):
        low, high = self.ranges[segment_id]
        return low <= key < high

    def scale(self, old, new_ranges):
        """Seal ``old`` and continue them with segments of ``new_ranges``."""
        self.epoch += 1
        made = {}
        for index, bounds in enumerate(new_ranges):
            made[self.epoch << 32 | 100 * self.epoch + index] = bounds
        for child, (low, high) in made.items():
            predecessors = tuple(p for p in old if self.ranges[p][0] < high and self.ranges[p][1] > low)
            for parent in predecessors:
                self.heirs[parent][child] = predecessors
        self.sealed.update(old)
        for child, bounds in made.items():
            self.events[child] = []
            self.ranges[child] = bounds

    def seal(self):
        """The stream ends."""
        self.sealed.update(self.events)

    def tail(self):
        return {segment_id: self.length(segment_id) for segment_id in self.active}

    def read(self, segment_id, start, end):
        """Return the events of a range; it has to begin and end between events."""
        at, found = 0, []
        edges = {0}
        for event in self.events[segment_id]:
            if start <= at < end:
                found.append(event)
            at += event[2]
            edges.add(at)
        assert start in edges, "a range begins inside an event"
        assert end in edges, "a range ends inside an event"
        return found


class ModelGraph:
    """The planner's view of a :class:`StreamModel` as it is now."""

    def __init__(self, model):
        self.model = model

    def facts(self, segment_id):
        from headrace.spark.partitioning import SegmentFacts

        return SegmentFacts(self.model.length(segment_id), segment_id in self.model.sealed)

    def successors(self, segment_id):
        return dict(self.model.heirs[segment_id])

    def event_boundaries(self, shares):
        return [self._boundary(each) for each in shares]

    def _boundary(self, share):
        assert share.start < share.target
        at, count = 0, 0
        for _, _, size in self.model.events[share.segment_id]:
            if at >= share.target or at >= share.end or (share.events and count == share.events):
                break
            count += at >= share.start
            at += size
        return min(at, share.end)
