"""Single questions to the segment store that owns a segment: what is it like, where is an event boundary."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.client.control.tokens import Access
from headrace.client.owner_calls import OwnerCalls
from headrace.client.segment_address import SegmentAddress
from headrace.errors import NoSuchSegmentError, SegmentSealedError, UnsupportedError
from headrace.wire.commands import (
    GetSegmentAttribute,
    GetStreamSegmentInfo,
    LocateOffset,
    OffsetLocated,
    SealSegment,
    SegmentAttribute,
    SegmentAttributeUpdated,
    SegmentSealed,
    SegmentTruncated,
    StreamSegmentInfo,
    TruncateSegment,
    UpdateSegmentAttribute,
)


@dataclass(frozen=True, slots=True)
class SegmentInfo:
    """What a segment is like. Offsets and lengths in bytes."""

    segment_id: int
    start_offset: int
    length: int
    sealed: bool
    last_modified_ms: int


class SegmentCalls:
    """Questions and changes that may be repeated safely. Used on one loop."""

    def __init__(self, calls: OwnerCalls) -> None:
        self._calls = calls

    async def info(self, address: SegmentAddress) -> SegmentInfo:
        """Return the properties of a segment. Raises NoSuchSegmentError."""
        reply = await self._calls.call(
            address,
            Access.READ,
            lambda token: GetStreamSegmentInfo(0, address.name, token),
            (StreamSegmentInfo,),
        )
        assert isinstance(reply, StreamSegmentInfo)
        if not reply.exists:
            raise NoSuchSegmentError(address.name)
        return SegmentInfo(
            address.segment_id, reply.start_offset, reply.write_offset, reply.is_sealed, reply.last_modified
        )

    async def locate_offset(self, address: SegmentAddress, target_offset: int) -> int:
        """Return an event boundary at or after ``target_offset``; the segment's length if none is known."""
        try:
            reply = await self._calls.call(
                address,
                Access.READ,
                lambda token: LocateOffset(0, address.name, target_offset, token),
                (OffsetLocated,),
            )
        except UnsupportedError:
            return (await self.info(address)).length
        assert isinstance(reply, OffsetLocated)
        return reply.offset

    async def truncate(self, address: SegmentAddress, offset: int) -> None:
        """Drop everything below ``offset`` of one segment. Truncate streams with a cut instead, if they
        scale.
        """
        await self._calls.call(
            address,
            Access.READ_WRITE,
            lambda token: TruncateSegment(0, address.name, offset, token),
            (SegmentTruncated,),
        )

    async def attribute(self, address: SegmentAddress, attribute_id: bytes) -> int:
        """Return the value of an attribute; ``ATTRIBUTE_NULL`` if it has none. Raises NoSuchSegmentError."""
        reply = await self._calls.call(
            address,
            Access.READ,
            lambda token: GetSegmentAttribute(0, address.name, attribute_id, token),
            (SegmentAttribute,),
        )
        assert isinstance(reply, SegmentAttribute)
        return reply.value

    async def replace_attribute(
        self, address: SegmentAddress, attribute_id: bytes, expected: int, value: int
    ) -> bool:
        """Set an attribute that has the value ``expected``; return whether it has ``value`` then.

        True also if somebody else set it to that: an answer may be lost, and the question is repeated.
        """
        reply = await self._calls.call(
            address,
            Access.READ_WRITE,
            lambda token: UpdateSegmentAttribute(0, address.name, attribute_id, value, expected, token),
            (SegmentAttributeUpdated,),
        )
        assert isinstance(reply, SegmentAttributeUpdated)
        return reply.success or await self.attribute(address, attribute_id) == value

    async def seal(self, address: SegmentAddress) -> None:
        """Allow no more appends to one segment; sealing a sealed one succeeds."""
        try:
            await self._calls.call(
                address,
                Access.READ_WRITE,
                lambda token: SealSegment(0, address.name, token),
                (SegmentSealed,),
            )
        except SegmentSealedError:
            return
