"""Answers questions about cuts of one stream, reading what they need of its epochs.

A question costs the segments of its cuts and the distance between them, not what lies before. Distances are
walked in batches; see ``epoch_reader``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

from headrace.controller.store.rows.epoch_row import SegmentRecord
from headrace.controller.streams.cuts import (
    PlacedCut,
    SegmentsAfter,
    SegmentsBefore,
    SegmentsBetween,
    SkippedSegments,
    check_shape,
    place_cut,
    relate_cuts,
)
from headrace.controller.streams.epoch_reader import EpochReader
from headrace.errors import InvalidArgumentError
from headrace.model.stream_cut import Relation


class CutReader:
    """Cuts are given as offsets by segment id, or placed, where more than one question is asked of one.

    Raises what ``EpochReader`` raises beside what is said.
    """

    def __init__(self, epochs: EpochReader) -> None:
        self._epochs = epochs

    async def place(self, cut: Mapping[int, int]) -> PlacedCut:
        """Look up the segments of ``cut``.

        Raises:
            InvalidArgumentError: the stream never had one of them, or an offset is none.
        """
        return place_cut(cut, await self._epochs.find_segments(cut))

    async def check(self, cut: Mapping[int, int]) -> PlacedCut:
        """Raise unless ``cut`` is a position a reader of the whole stream can be in.

        Raises:
            InvalidArgumentError: naming the rule that is broken.
        """
        placed = await self.place(cut)
        check_shape(placed)
        if placed.future:
            skipped = SkippedSegments(placed)
            async for segments in self._epochs.created(skipped.epochs(placed, await self._ends(placed))):
                skipped.check(segments)
        return placed

    async def is_valid(self, cut: Mapping[int, int]) -> bool:
        try:
            await self.check(cut)
        except InvalidArgumentError:
            return False
        return True

    async def relate(self, cut: Mapping[int, int], other: Mapping[int, int]) -> Relation:
        """Return how ``cut`` lies to ``other``. Raises InvalidArgumentError as :meth:`place`."""
        return relate_cuts(await self.place(cut), await self.place(other))

    async def between(
        self, lower: Mapping[int, int], upper: Mapping[int, int], *, count_max: int
    ) -> list[int]:
        """Return the ids of the segments that carry data between two cuts, both ends included, sorted.

        An empty cut is no limit. If they are more than ``count_max``, more than that are returned, not all.

        Raises:
            InvalidArgumentError: as :meth:`place`.
        """
        found: list[int] = []
        async for some in self.walk_between(lower, upper):
            found += some
            if len(found) > count_max:
                break
        return sorted(found)

    async def walk_between(
        self, lower: Mapping[int, int], upper: Mapping[int, int]
    ) -> AsyncIterator[list[int]]:
        """Yield what :meth:`between` returns, few at a time, each once."""
        placed_lower = await self.place(lower) if lower else None
        placed_upper = await self.place(upper) if upper else None
        ends = {} if placed_lower is None else await self._ends(placed_lower)
        between = SegmentsBetween(placed_lower, placed_upper)
        entries: dict[int, SegmentRecord] = {}
        for placed in (placed_lower, placed_upper):
            if placed is not None:
                entries |= {segment.segment_id: segment for segment in placed.entries()}
        yield between.select(entries.values())
        epochs = between.epochs(placed_lower, ends, placed_upper, self._epochs.last_epoch)
        async for segments in self._epochs.created(epochs):
            yield between.select(segment for segment in segments if segment.segment_id not in entries)

    async def passed(
        self, head: Mapping[int, int] | None, cut: Mapping[int, int]
    ) -> AsyncIterator[list[SegmentRecord]]:
        """Yield, few at a time, the segments that lie before ``cut`` and not before ``head``, each once.

        Both are valid, and ``cut`` is equal to ``head`` or after it; None is the beginning of the stream.
        """
        placed, placed_head = await self.place(cut), await self.place(head) if head is not None else None
        ends = {} if placed_head is None else await self._ends(placed_head)
        before = SegmentsBefore(placed)
        after_head = SegmentsAfter(placed_head)
        yield [segment for segment in after_head.entries if before.holds(segment)]
        async for segments in self._epochs.created(before.epochs(placed_head, ends, placed)):
            yield [segment for segment in segments if before.holds(segment) and after_head.holds(segment)]

    async def present(self, head: Mapping[int, int] | None) -> AsyncIterator[list[SegmentRecord]]:
        """Yield, few at a time, the segments that do not lie before ``head``, each once."""
        placed = await self.place(head) if head is not None else None
        stop = self._epochs.last_epoch + 1
        first = 0 if placed is None else min((await self._ends(placed)).values(), default=stop)
        after_head = SegmentsAfter(placed)
        yield after_head.entries
        async for segments in self._epochs.created(range(first, stop)):
            yield [segment for segment in segments if after_head.holds(segment)]

    async def _ends(self, cut: PlacedCut) -> dict[int, int]:
        return await self._epochs.ends([segment.segment_id for segment in cut.entries()])
