"""The whole history of a stream in memory, to compare readers of rows with."""

from headrace.controller.store.rows.epoch_row import EpochRecord, SegmentRecord
from headrace.controller.streams.cuts import check_shape, place_cut, positions
from headrace.controller.streams.epochs import Successor
from headrace.errors import InvalidArgumentError


class EpochHistory:
    """All epochs of one stream from 0 on, in memory, with what they say about each segment."""

    def __init__(self, records=()) -> None:
        self.records: list[EpochRecord] = []
        self._segments: dict[int, SegmentRecord] = {}
        self._sealed_in: dict[int, int] = {}
        for record in records:
            self.extend(record)

    def extend(self, record: EpochRecord) -> None:
        """Add the next epoch."""
        assert record.epoch == len(self.records)
        present = {segment.segment_id for segment in record.segments}
        if self.records:
            for segment in self.records[-1].segments:
                if segment.segment_id not in present:
                    self._sealed_in[segment.segment_id] = record.epoch
        for segment in record.segments:
            self._segments.setdefault(segment.segment_id, segment)
        self.records.append(record)

    @property
    def last_epoch(self) -> int:
        return len(self.records) - 1

    def find_epoch(self, epoch: int) -> EpochRecord | None:
        return self.records[epoch] if 0 <= epoch < len(self.records) else None

    def find_segment(self, segment_id: int) -> SegmentRecord | None:
        return self._segments.get(segment_id)

    def segments(self):
        """Every segment that ever was, oldest first."""
        return self._segments.values()

    def successors(self, segment_id: int) -> list[Successor]:
        """Return the successors, with all predecessors of each; nothing for active and unknown segments."""
        sealed_in = self._sealed_in.get(segment_id)
        if sealed_in is None:
            return []
        before, after = self.records[sealed_in - 1].segments, self.records[sealed_in].segments
        return [
            Successor(segment, [each.segment_id for each in before if overlap(each, segment)])
            for segment in after
            if overlap(segment, self._segments[segment_id])
        ]

    def end(self, segment_id: int) -> int | None:
        """The first epoch without the segment."""
        return self._sealed_in.get(segment_id)

    def check(self) -> None:
        """Assert that every epoch is whole and every segment lives in consecutive epochs."""
        for record in self.records:
            record.check()
            for segment in record.segments:
                sealed_in = self._sealed_in.get(segment.segment_id)
                assert sealed_in is None or record.epoch < sealed_in


def overlap(one, other):
    return one.key_range.overlaps(other.key_range)


def place(history, cut):
    return place_cut(cut, {each.segment_id: each for each in history.segments()})


def is_valid(history, cut):
    """Look at every segment there ever was for one that would be read at one key and not at another."""
    try:
        placed = place(history, cut)
        check_shape(placed)
    except InvalidArgumentError:
        return False
    pieces = positions(placed)
    return not any(
        cut[piece.segment_id] < 0
        and segment.segment_id not in cut
        and segment.segment_id < piece.segment_id
        and overlap(segment, piece)
        and any(overlap(other, segment) and other.segment_id < segment.segment_id for other in pieces)
        for piece in pieces
        for segment in history.segments()
    )


def between(history, lower, upper):
    """An empty cut is no limit."""
    first, last = positions(place(history, lower)), positions(place(history, upper))
    return sorted(
        segment.segment_id
        for segment in history.segments()
        if all(segment.segment_id >= each.segment_id for each in first if overlap(each, segment))
        and all(segment.segment_id <= each.segment_id for each in last if overlap(each, segment))
    )


def before(history, cut):
    """The ids of all segments that hold nothing at or after the cut."""
    entries = place(history, cut).entries()
    return {
        segment.segment_id
        for segment in history.segments()
        if segment.segment_id not in cut
        and all(entry.segment_id > segment.segment_id for entry in entries if overlap(entry, segment))
    }


async def read_history(stream):
    """Return the whole history of a stream of a controller."""
    epochs = stream.epochs()
    return EpochHistory([record async for record in epochs.walk(range(epochs.last_epoch + 1))])
