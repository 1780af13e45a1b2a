"""The segment that holds the watermarks of one stream, as the controller writes it.

Any controller may append: each append states the offset that it was computed for, so that nothing gets in
between. What a controller that died has appended is found by the next one, whether or not the attribute of
the segment points to it.

Source: ``docs/formats/watermark.md``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final

from headrace.controller.segments.calls import SegmentCalls
from headrace.errors import DataCorruptionError
from headrace.limits import KIB, MIB
from headrace.model.watermark import NEWEST_MARK, Watermark, decode_watermark, frame_watermark, split_marks

_PIECE_BYTES: Final = 256 * KIB
_SEARCH_BYTES_MAX: Final = 4 * MIB
"""Read at once at most when looking for what is not needed: what is left is found the next time."""


@dataclass(frozen=True, slots=True)
class MarksFound:
    """The state of a mark stream. Offsets in bytes."""

    newest: Watermark | None
    start_offset: int
    length: int
    pointer: int
    """The attribute."""


class MarkStream:
    """One segment of watermarks. It has no state of its own."""

    def __init__(self, segments: SegmentCalls, segment: str) -> None:
        self._segments = segments
        self._segment = segment

    async def find_newest(self) -> MarksFound:
        """Find the newest watermark, in few calls if the attribute is set.

        Raises:
            NoSuchSegmentError: there is no such segment.
            SegmentTruncatedError: it was truncated meanwhile.
            DataCorruptionError: it holds something else than watermarks.
        """
        pointer = await self._segments.get_attribute(self._segment, NEWEST_MARK)
        (facts,) = await self._segments.info([self._segment])
        start, length = facts.start_offset, facts.length
        begin = pointer if start <= pointer < length else start
        payload: memoryview | None = None
        async for _, found in self._events(begin, length):
            payload = found
        newest = None if payload is None else decode_watermark(payload)
        return MarksFound(newest, start, length, pointer)

    async def append(self, found: MarksFound, watermark: Watermark) -> bool:
        """Append behind what was found; return False if something else may be there instead.

        Raises:
            NoSuchSegmentError, SegmentSealedError: there is no mark stream any more.
        """
        if not await self._segments.append(self._segment, frame_watermark(watermark), found.length):
            return False
        await self._segments.update_attribute(self._segment, NEWEST_MARK, found.length, found.pointer)
        return True

    async def find_first_needed(
        self, found: MarksFound, is_passed: Callable[[Watermark], bool], bytes_max: int
    ) -> int:
        """Return the offset of the first watermark that is to stay.

        Args:
            found: the state of the segment.
            is_passed: whether every reader is behind the cut of a watermark: no reader needs those before it.
            bytes_max: what may stay.
        """
        needed = begin = found.start_offset
        end = min(found.length, found.start_offset + _SEARCH_BYTES_MAX)
        async for after, payload in self._events(begin, end, whole=end == found.length):
            if begin > needed and is_passed(decode_watermark(payload)):
                needed = begin
            elif found.length - begin > bytes_max and after < found.length:
                needed = after
            elif begin > needed:
                break
            begin = after
        return needed

    async def truncate(self, offset: int) -> None:
        """Drop what is in front of ``offset``."""
        await self._segments.truncate({self._segment: offset})

    async def _events(
        self, begin: int, end: int, *, whole: bool = True
    ) -> AsyncIterator[tuple[int, memoryview]]:
        """Yield the offset behind each event between two offsets, and its payload."""
        data, offset = b"", begin
        while offset + len(data) < end:
            read_from = offset + len(data)
            piece = await self._segments.read(self._segment, read_from, min(_PIECE_BYTES, end - read_from))
            if not piece:
                break
            data += piece
            consumed = 0
            for after, payload in split_marks(data):
                consumed = after
                yield offset + after, payload
            data = data[consumed:]
            offset += consumed
        if data and whole:
            raise DataCorruptionError(
                f"{self._segment} ends inside a watermark", path=self._segment, offset=offset
            )
