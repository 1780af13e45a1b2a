"""Who reads in a group, and where: read from the stream in which its readers agree.

It is theirs: controllers only look, and only when somebody asks.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from msgspec import UNSET, UnsetType

from headrace.client.groups.group_codec import GroupCodec
from headrace.client.groups.group_state import GroupState, apply
from headrace.client.revisions.replay import Replay
from headrace.client.segment_address import SegmentAddress
from headrace.controller.context import ControllerContext
from headrace.controller.rest.models import GroupSegment
from headrace.errors import AnswerTooLargeError, DataCorruptionError
from headrace.limits import EVENT_HEADER_BYTES, MIB, READ_BYTES_MAX
from headrace.model.attributes import ATTRIBUTE_NULL
from headrace.model.names import READER_GROUP_PREFIX
from headrace.model.watermark import NEWEST_MARK

_STATE_BYTES_MAX: Final = 64 * MIB
"""Readers write the whole state when about half a MiB of updates lies behind it."""
_HEADER: Final = struct.Struct(">ii")


async def read_group(context: ControllerContext, scope: str, group: str) -> GroupState | None:
    """Return the state of a group; None: no reader has been there yet.

    Raises:
        NoSuchStreamError: it has no stream.
        DataCorruptionError: the stream has something else.
        AnswerTooLargeError: it is beyond all that readers leave there.
    """
    stream = await context.directory.get(scope, READER_GROUP_PREFIX + group)
    (segment,) = stream.segments(each.segment_id for each in stream.row.epoch.segments)
    calls = context.segments
    (facts,) = await calls.info([segment])
    mark = await calls.get_attribute(segment, NEWEST_MARK)
    begin = max(facts.start_offset, 0 if mark == ATTRIBUTE_NULL else mark)
    if facts.length - begin > _STATE_BYTES_MAX:
        raise AnswerTooLargeError(facts.length - begin, _STATE_BYTES_MAX)
    data = bytearray()
    while begin + len(data) < facts.length:
        data += await calls.read(segment, begin + len(data), READ_BYTES_MAX)
    codec = GroupCodec()
    replay = Replay(codec.decode_state, codec.decode_update, apply)
    for payload, end in _entries(memoryview(data), begin):
        replay.read(payload, end)
    return None if replay.needs_state else replay.state


def segments_of(state: GroupState | None) -> list[GroupSegment]:
    """Return the segments that a group reads, and where it was last."""
    if state is None:
        return []
    places: list[tuple[SegmentAddress, str | UnsetType, int]] = [
        (segment, UNSET, offset) for segment, offset in state.unassigned.items()
    ]
    for reader, owned in state.assigned.items():
        places += [(segment, reader, offset) for segment, offset in owned.items()]
    found = [GroupSegment(segment.name, reader, offset) for segment, reader, offset in places]
    return sorted(found, key=lambda each: each.segment)


def _entries(data: memoryview, begin: int) -> Iterator[tuple[memoryview, int]]:
    """Yield whole entries and where they end in the segment."""
    at = 0
    while at + EVENT_HEADER_BYTES <= len(data):
        kind, length = _HEADER.unpack_from(data, at)
        if kind != 0 or length < 0:
            raise DataCorruptionError(f"no entry of a reader group begins at offset {begin + at}")
        at += EVENT_HEADER_BYTES + length
        if at <= len(data):
            yield data[at - length : at], begin + at
