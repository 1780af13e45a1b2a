"""Which segments of a stream are to be read when, so that every key is read in order across scale events.
Pure.

At any moment the walk stands at a stream cut: segments with offsets that own the whole key space exactly
once. A segment that is sealed and read stays in the cut, at its end, until all segments that share
successors with it are read as well; then the successors take their place together. So a merge waits for its
slower half, a position is always a valid cut, and no event is read before an older one of the same key.

Source: protocol, "End of segment and successors" and "Truncation and validity of a cut".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.client.segment_map import Successor
from headrace.errors import InvalidArgumentError
from headrace.model.key_space import KeyRange
from headrace.model.segment_id import segment_id_text
from headrace.model.stream_cut import COMPLETED


@dataclass(slots=True)
class _Place:
    """A segment of the current cut. ``end``: where to stop (None: at its seal)."""

    key_range: KeyRange
    offset: int
    end: int | None
    finished: bool = False
    """Sealed and read completely."""


def _is_done(place: _Place) -> bool:
    return place.finished or (place.end is not None and place.offset >= place.end)


def is_future(segment_id: int, start: Mapping[int, int], ranges: Mapping[int, KeyRange]) -> bool:
    """Tell whether a segment is at -1 because it is not reached yet: an older one with common keys is still
    to be read.
    """
    if start[segment_id] != COMPLETED:
        return False
    mine = ranges[segment_id]
    return any(
        other < segment_id and offset != COMPLETED and other in ranges and ranges[other].overlaps(mine)
        for other, offset in start.items()
    )


@dataclass(frozen=True, slots=True)
class Start:
    """A segment to be read from ``offset`` to ``end`` (None: until it is sealed)."""

    segment_id: int
    offset: int
    end: int | None


class StreamWalk:
    """Decides what to read next from what ended and what follows. Mutated by one owner."""

    def __init__(
        self, start: Mapping[int, int], ranges: Mapping[int, KeyRange], end: Mapping[int, int] | None = None
    ) -> None:
        """Stand at ``start``.

        Args:
            start: segments and offsets. An offset of -1 is a segment that has been read completely, or, if an
                older segment of the cut shares keys with it, one that is not reached yet.
            ranges: key ranges of the segments in ``start`` and ``end``.
            end: where to stop, or None to go on until the stream is sealed. A segment of ``start`` that lies
                behind it is not read.

        Raises:
            InvalidArgumentError: a segment has no range: the stream does not know it.
        """
        self._end = dict(end) if end is not None else None
        self._cut: dict[int, _Place] = {}
        self._successors: dict[int, tuple[Successor, ...]] = {}
        self._behind: set[int] = set()
        """Segments of the start that lie behind the end."""
        for segment_id, offset in sorted(start.items()):
            mine = ranges.get(segment_id)
            if mine is None:
                raise InvalidArgumentError(
                    f"segment {segment_id_text(segment_id)} of the cut is not known to the stream"
                )
            if is_future(segment_id, start, ranges):
                continue
            behind = (
                self._end is not None
                and segment_id not in self._end
                and any(
                    each < segment_id and each in ranges and ranges[each].overlaps(mine) for each in self._end
                )
            )
            if behind:
                self._behind.add(segment_id)
            self._cut[segment_id] = _Place(mine, offset, offset if behind else self._bound(segment_id))

    def _bound(self, segment_id: int) -> int | None:
        """Return where to stop in a segment; the end of a cut at -1 is wherever the segment is sealed."""
        bound = None if self._end is None else self._end.get(segment_id)
        return None if bound == COMPLETED else bound

    # ------------------------------------------------------------------------------ asking

    def to_read(self) -> list[Start]:
        """Return the segments of the cut that are not finished, oldest first. An offset of -1 is the tail."""
        return [
            Start(segment_id, place.offset, place.end)
            for segment_id, place in sorted(self._cut.items())
            if not _is_done(place)
        ]

    @property
    def is_complete(self) -> bool:
        """Nothing is left to be read, and nothing will follow."""
        return all(
            _is_done(place) and (self._stops_at(segment_id) or self._is_last(segment_id))
            for segment_id, place in self._cut.items()
        )

    def _stops_at(self, segment_id: int) -> bool:
        """The end cut runs through this segment or lies in front of it, so that nothing behind it is read."""
        return self._end is not None and (segment_id in self._end or segment_id in self._behind)

    def _is_last(self, segment_id: int) -> bool:
        """Whether nothing follows a segment that is finished, or only what lies behind the end."""
        following = self._successors.get(segment_id)
        return following is not None and all(map(self._is_behind_end, following))

    def _is_behind_end(self, child: Successor) -> bool:
        return self._end is not None and any(parent in self._end for parent in child.predecessors)

    def offsets(self) -> dict[int, int]:
        """Return the current cut."""
        return {segment_id: place.offset for segment_id, place in sorted(self._cut.items())}

    def needs_successors(self, segment_id: int) -> bool:
        """Whether :meth:`on_finished` needs the successors."""
        return not self._stops_at(segment_id)

    # ------------------------------------------------------------------------------ telling

    def on_read(self, segment_id: int, offset: int) -> None:
        """Everything below ``offset`` of a segment has been handed out."""
        place = self._cut[segment_id]
        assert offset >= place.offset or place.offset == COMPLETED
        place.offset = offset

    def on_finished(self, segment_id: int, length: int, successors: Iterable[Successor]) -> list[Start]:
        """A segment is sealed and everything below ``length`` was handed out.

        Returns:
            The segments to read next; none if an older one that shares successors is still being read.
        """
        place = self._cut[segment_id]
        assert not place.finished
        place.finished = True
        place.offset = length
        self._successors[segment_id] = tuple(successors)
        begun = self._advance(segment_id)
        waiting = [each for each in sorted(self._successors) if begun]
        # What has just become current may be what another family was waiting for to appear.
        for each in waiting:
            if each in self._successors:
                begun += self._advance(each)
        return begun

    def _advance(self, segment_id: int) -> list[Start]:
        if self._stops_at(segment_id):
            return []
        family = self._family(segment_id)
        if family is None:
            return []
        parents, children = family
        if not children:
            return []  # the stream ends here
        begun = []
        for parent in parents:
            del self._cut[parent]
            del self._successors[parent]
        for child in sorted(children.values(), key=lambda each: each.segment_id):
            self._cut[child.segment_id] = _Place(child.key_range, 0, self._bound(child.segment_id))
            begun.append(Start(child.segment_id, 0, self._bound(child.segment_id)))
        return begun

    def _family(self, segment_id: int) -> tuple[set[int], dict[int, Successor]] | None:
        """Return all segments that share successors with this one, and those; None if one is not finished."""
        parents, children = {segment_id}, dict[int, Successor]()
        waiting = [segment_id]
        while waiting:
            for child in self._successors[waiting.pop()]:
                if child.segment_id in children or child.segment_id in self._cut:
                    continue
                if self._is_behind_end(child):
                    continue
                children[child.segment_id] = child
                for parent in child.predecessors:
                    if parent in parents:
                        continue
                    place = self._cut.get(parent)
                    if place is None:
                        if self._is_ahead(parent, child, parents):
                            return None
                        continue
                    if not place.finished:
                        return None
                    parents.add(parent)
                    waiting.append(parent)
        return parents, children

    def _is_ahead(self, parent: int, child: Successor, family: set[int]) -> bool:
        """Tell whether a segment that is not in the cut will be reached: an older one leads to it.

        Of segments with common keys the smaller id is the older one. A segment outside the cut that nothing
        in the cut leads to was read before the walk began.
        """
        return any(
            segment_id < parent and segment_id not in family and place.key_range.overlaps(child.key_range)
            for segment_id, place in self._cut.items()
        )

    def check(self) -> None:
        """Assert the invariants."""
        assert set(self._successors) <= set(self._cut)
        for segment_id, place in self._cut.items():
            assert place.finished == (segment_id in self._successors)
            assert place.end is None or place.finished or place.offset <= place.end
