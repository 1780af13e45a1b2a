"""Reads some events of a stream on behalf of somebody who looks at them: few bytes, from any position on."""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from headrace.controller.context import ControllerContext
from headrace.controller.rest.tail_frames import last_frames
from headrace.controller.store.rows.stream_row import StreamState
from headrace.controller.streams.stream import Stream
from headrace.errors import DataCorruptionError, SegmentTruncatedError
from headrace.limits import EVENT_HEADER_BYTES, MIB
from headrace.model.segment_id import segment_id_text

PREVIEW_BYTES: Final = 64 << 10
"""Of one event. What is behind them is skipped, and not read."""

BYTES_MAX: Final = 4 * MIB
SECONDS_MAX: Final = 2.0
_CHUNK_BYTES: Final = PREVIEW_BYTES + EVENT_HEADER_BYTES
_TAIL_BYTES: Final = 1 * MIB
"""Of all segments of a stream epoch together that are looked at for the last events."""
_TAIL_EPOCHS_MAX: Final = 8
"""Stream epochs that are looked at for them, if there are few."""
_TAIL_BYTES_MIN, _TAIL_BYTES_MAX = 4 << 10, 64 << 10
_LENGTH: Final = struct.Struct(">q")


@dataclass(frozen=True, slots=True)
class FoundEvent:
    """An event, or with fewer bytes than ``size`` its beginning."""

    segment_id: int
    offset: int
    size: int
    data: bytes


@dataclass(slots=True)
class FoundEvents:
    """What was found, the offsets behind it by segment, and what ended it: see ``models.EventsPage``."""

    events: list[FoundEvent]
    behind: dict[int, int]
    ended_by: str


@dataclass(slots=True)
class _Place:
    """Where one segment is read."""

    segment_id: int
    offset: int
    length: int
    sealed: bool


@dataclass(slots=True)
class _Reading:
    found: list[FoundEvent] = field(default_factory=list)
    places: deque[_Place] = field(default_factory=deque)
    """With more to read, in the order of their turns."""
    rest: dict[int, int] = field(default_factory=dict)
    """Read to their tail, or to the end while successors wait for other predecessors."""
    bytes_read: int = 0


async def find_head(stream: Stream) -> dict[int, int]:
    """Return the cut that the stream begins with."""
    epochs = stream.epochs()
    if epochs.row.truncation is not None:
        return dict(epochs.row.truncation)
    return dict.fromkeys((await epochs.read([0]))[0].segment_ids(), 0)


async def read_events(
    context: ControllerContext, stream: Stream, begin: Mapping[int, int], count_max: int
) -> FoundEvents:
    """Read from a cut on, some of each segment in turn, until a bound or the tail.

    Raises:
        DataCorruptionError: no event begins at an offset, as with a cut that somebody made up.
    """
    reading, loop = _Reading(), asyncio.get_running_loop()
    await _add(context, stream, reading, begin)
    until_s = loop.time() + SECONDS_MAX
    ended_by = ""
    while not ended_by and reading.places:
        share = max(1, count_max // (4 * len(reading.places)))
        place = reading.places.popleft()
        await _read_some(context, stream, reading, place, min(share, count_max - len(reading.found)))
        if place.offset < place.length:
            reading.places.append(place)
        else:
            reading.rest[place.segment_id] = place.offset
            if place.sealed:
                await _add_successors(context, stream, reading, place.segment_id)
        if len(reading.found) >= count_max:
            ended_by = "events"
        elif reading.bytes_read >= BYTES_MAX:
            ended_by = "bytes"
        elif loop.time() >= until_s:
            ended_by = "seconds"
    behind = reading.rest | {place.segment_id: place.offset for place in reading.places}
    return FoundEvents(reading.found, behind, ended_by or ("tail" if behind else "end"))


async def read_last(context: ControllerContext, stream: Stream, count_max: int) -> FoundEvents:
    """Read the last events of each active segment that lie in its last bytes; while there are too few, those
    of the segments before them as well. Behind them is the tail.
    """
    epochs, found, seen = stream.epochs(), list[FoundEvent](), set[int]()
    active = epochs.row.epoch.segment_ids()
    facts = await context.segments.find(stream.segments(active))
    behind = {each: known.length for each, known in zip(active, facts, strict=True) if known is not None}
    last = epochs.last_epoch
    for number in range(last, max(-1, last - _TAIL_EPOCHS_MAX), -1):
        ids = (await epochs.read([number]))[number].segment_ids()
        new = [each for each in ids if each not in seen]
        seen.update(new)
        found = await _read_last_of(context, stream, new, count_max - len(found)) + found
        if len(found) >= count_max:
            break
    return FoundEvents(found[-count_max:], behind, "tail" if behind else "end")


async def _read_last_of(
    context: ControllerContext, stream: Stream, segments: list[int], count_max: int
) -> list[FoundEvent]:
    facts = await context.segments.find(stream.segments(segments))
    window = min(_TAIL_BYTES_MAX, max(_TAIL_BYTES_MIN, _TAIL_BYTES // max(1, len(segments))))
    share = max(1, count_max // max(1, len(segments)))
    found: list[FoundEvent] = []
    for segment_id, known in list(zip(segments, facts, strict=True))[: _TAIL_BYTES // window]:
        if known is None or known.length == known.start_offset:
            continue
        begin = max(known.start_offset, known.length - window)
        data = await _read_all(context, stream.segment(segment_id), begin, known.length - begin)
        frames = last_frames(data, from_start=begin == known.start_offset)
        for first, end in frames[-share:]:
            payload = data[first + EVENT_HEADER_BYTES : end]
            found.append(FoundEvent(segment_id, begin + first, len(payload), payload))
        await asyncio.sleep(0)
    return found


async def _read_some(
    context: ControllerContext, stream: Stream, reading: _Reading, place: _Place, count_max: int
) -> None:
    """Read events of one segment; its ``place`` moves behind them."""
    name = stream.segment(place.segment_id)
    try:
        data = await _read_all(context, name, place.offset, min(_CHUNK_BYTES, place.length - place.offset))
    except SegmentTruncatedError as error:
        place.offset = error.start_offset
        return
    reading.bytes_read += len(data)
    at = 0
    while count_max and at + EVENT_HEADER_BYTES <= len(data):
        (size,) = _LENGTH.unpack_from(data, at)
        if not 0 <= size <= 0x7FFF_FFFF:
            raise DataCorruptionError(
                f"no event begins at offset {place.offset + at} of segment "
                f"{segment_id_text(place.segment_id)}"
            )
        end = at + EVENT_HEADER_BYTES + size
        if end > len(data) and at > 0:
            break
        payload = data[at + EVENT_HEADER_BYTES : end][:PREVIEW_BYTES]
        reading.found.append(FoundEvent(place.segment_id, place.offset + at, size, payload))
        at, count_max = end, count_max - 1
    if not at:
        at = place.length - place.offset  # nothing whole is there
    place.offset = min(place.length, place.offset + at)


async def _read_all(context: ControllerContext, segment: str, offset: int, length: int) -> bytes:
    """Read so many bytes, which are there. Raises SegmentTruncatedError."""
    data = bytearray()
    while len(data) < length:
        piece = await context.segments.read(segment, offset + len(data), length - len(data))
        if not piece:
            break
        data += piece
    return bytes(data)


async def _add(
    context: ControllerContext, stream: Stream, reading: _Reading, begin: Mapping[int, int]
) -> None:
    segments = list(begin)
    facts = await context.segments.find(stream.segments(segments))
    for segment_id, known in zip(segments, facts, strict=True):
        if known is None:  # it was deleted: what follows it is read
            reading.rest[segment_id] = begin[segment_id]
            await _add_successors(context, stream, reading, segment_id)
            continue
        offset = max(begin[segment_id], known.start_offset)
        reading.places.append(_Place(segment_id, min(offset, known.length), known.length, known.sealed))


async def _add_successors(
    context: ControllerContext, stream: Stream, reading: _Reading, segment_id: int
) -> None:
    """Go on with what follows a segment that was read to its end, once all that it follows was."""
    successors = await stream.epochs().successors(segment_id)
    waiting = {place.segment_id for place in reading.places}
    ready = [each for each in successors if not waiting.intersection(each.predecessors)]
    if successors:
        if len(ready) == len(successors):
            reading.rest.pop(segment_id, None)
    elif stream.row.state is StreamState.SEALED:
        reading.rest.pop(segment_id, None)
    for each in ready:
        for predecessor in each.predecessors:
            reading.rest.pop(predecessor, None)
    known = waiting | reading.rest.keys()
    new = {each.segment.segment_id: 0 for each in ready if each.segment.segment_id not in known}
    if new:
        await _add(context, stream, reading, new)
