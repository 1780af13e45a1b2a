"""All segments of a cluster, in other processes: the verbs of ``SegmentAccess`` over connections.

A refusal is the error that a store in this process would raise. Questions, and changes that may be repeated,
are sent again when an answer is lost; of other changes, but appends, it is unknown then if they happened.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from headrace.client.connections.pool import ConnectionPool
from headrace.client.connections.reply_receiver import ReadBlock
from headrace.controller.segments.remote.appends import RemoteAppends
from headrace.controller.segments.remote.locator import StoreLocator
from headrace.controller.segments.remote.remote_tables import RemoteTables
from headrace.controller.segments.remote.store_calls import (
    POLICY,
    TIMEOUT_S,
    Connected,
    StoreCalls,
    TokenSource,
)
from headrace.errors import (
    AttributeMismatchError,
    ConnectionLostError,
    EventTooLargeError,
    InvalidArgumentError,
    LostReplyError,
    OverloadError,
    OwnershipError,
    PreconditionError,
    UnknownOutcomeError,
    UnreachableError,
    UnsupportedError,
)
from headrace.limits import BULK_NAMES_MAX, READ_BYTES_MAX, WIRE_PAYLOAD_BYTES_MAX
from headrace.model.attributes import AttributeUpdate
from headrace.model.change_marker import extend_marker, join_markers
from headrace.model.endpoint import Endpoint
from headrace.runtime.entropy import Entropy
from headrace.runtime.logs import logger
from headrace.runtime.retry import RetryPolicy
from headrace.wire import commands as c
from headrace.wire.commands.internal import PARTS_MAX
from headrace.wire.fields import ListedSegment

_log = logger(__name__)

_APPEND_BYTES_MAX: Final = WIRE_PAYLOAD_BYTES_MAX - 64
_POLL_PAUSE_S: Final = 1.0
_CHANGES_S: Final = 20.0
"""For the changes of one store: the others wait for it."""
_PASSING: Final = (OwnershipError, OverloadError, UnknownOutcomeError)
_PARTS_FACTOR: Final = 4


@dataclass(slots=True)
class RemoteRead:
    """What one read found."""

    offset: int
    data: bytes
    at_tail: bool
    end_of_segment: bool

    def to_bytes(self) -> bytes:
        return self.data


class RemoteSegments(RemoteTables):
    """A ``SegmentAccess`` over the segment stores of a cluster. Used on one loop.

    Args:
        pool: of connections, which its owner closes. For the internal commands it says INTERNAL_VERSION.
        locator: knows where segments are.
        tokens: gives a token for a segment.
        entropy: of writer ids and delays.
        policy: of repeated attempts.
    """

    def __init__(
        self,
        pool: ConnectionPool,
        locator: StoreLocator,
        tokens: TokenSource,
        entropy: Entropy,
        policy: RetryPolicy = POLICY,
    ) -> None:
        connected = Connected(pool, locator, tokens, entropy, policy)
        super().__init__(StoreCalls(connected))
        self._connected = connected
        self._appends = RemoteAppends(connected, self._length)

    # ---- segments

    async def create_segment(
        self, segment: str, /, *, scale_type: int = 0, target_rate: int = 0, rollover_bytes: int = 0
    ) -> None:
        def make(token: str) -> c.CreateSegment:
            return c.CreateSegment(0, segment, target_rate, scale_type, token, rollover_bytes)

        await self._calls.ask(segment, make, c.SegmentCreated, repeats=False)

    async def delete_segment(self, segment: str, /) -> None:
        await self._calls.ask(
            segment, lambda token: c.DeleteSegment(0, segment, token), c.SegmentDeleted, repeats=False
        )

    async def seal_segment(self, segment: str, /) -> int:
        await self._calls.ask(
            segment, lambda token: c.SealSegment(0, segment, token), c.SegmentSealed, repeats=False
        )
        try:
            return await self._length(segment)  # the answer has none
        except (OwnershipError, OverloadError, UnknownOutcomeError) as error:
            raise LostReplyError(
                f"segment {segment!r} is sealed, its length is not known: {error}"
            ) from error

    async def truncate_segment(self, segment: str, /, offset: int) -> None:
        await self._calls.ask(
            segment, lambda token: c.TruncateSegment(0, segment, offset, token), c.SegmentTruncated
        )

    async def update_policy(self, segment: str, /, scale_type: int, target_rate: int) -> None:
        def make(token: str) -> c.UpdateSegmentPolicy:
            return c.UpdateSegmentPolicy(0, segment, target_rate, scale_type, token)

        await self._calls.ask(segment, make, c.SegmentPolicyUpdated)

    async def segment_info(self, segment: str, /) -> ListedSegment:
        reply = await self._calls.ask(
            segment, lambda token: c.GetStreamSegmentInfo(0, segment, token), c.StreamSegmentInfo
        )
        return ListedSegment(True, reply.is_sealed, reply.start_offset, reply.write_offset)

    async def _length(self, segment: str) -> int:
        return (await self.segment_info(segment)).length

    async def segment_infos(self, segments: Sequence[str]) -> list[ListedSegment | None]:
        _check_count(segments)
        found: list[ListedSegment | None] = [None] * len(segments)
        answers = await self._calls.ask_owners(
            segments, lambda token, names: c.GetSegmentInfos(0, token, names), c.SegmentInfos
        )
        for places, reply in answers:
            for place, info in zip(places, reply.infos, strict=True):
                found[place] = info if info.exists else None
        return found

    async def delete_segments(self, segments: Sequence[str]) -> None:
        _check_count(segments)
        await self._calls.ask_owners(
            segments, lambda token, names: c.DeleteSegments(0, token, names), c.SegmentsDeleted
        )

    async def changed_segments(self, marker: bytes) -> tuple[bytes, list[tuple[str, int]]]:
        """Ask all stores. Changes in one that does not answer are found by a later call: the marker has the
        moment of the former look for its containers. Raises if none answers.
        """
        stores = self._connected.locator.stores()
        outcomes = await self._calls.ask_each(stores, lambda endpoint: self._changed_soon(endpoint, marker))
        markers, changed = [], []
        for endpoint, outcome in zip(stores, outcomes, strict=True):
            if not isinstance(outcome, BaseException):
                markers.append(outcome[0])
                changed += outcome[1]
            elif not isinstance(outcome, _PASSING) or len(stores) == 1:
                raise outcome
            else:
                _log.warning("a store is asked for changes later", store=str(endpoint), error=str(outcome))
        if stores and not markers:
            raise UnreachableError("no segment store says what has changed")
        return extend_marker(join_markers(markers), marker), changed

    async def _changed_soon(self, endpoint: Endpoint, marker: bytes) -> tuple[bytes, list[tuple[str, int]]]:
        try:
            async with asyncio.timeout(_CHANGES_S):
                return await self._changed_in(endpoint, marker)
        except TimeoutError:
            raise ConnectionLostError(f"{endpoint} did not answer within {_CHANGES_S:.0f} s") from None

    async def _changed_in(self, endpoint: Endpoint, marker: bytes) -> tuple[bytes, list[tuple[str, int]]]:
        """Ask one store, in as many parts as it takes."""
        following: bytes | None = None
        parts = 1
        while parts <= PARTS_MAX:
            changed: list[tuple[str, int]] = []
            for part in range(parts):

                def make(token: str, part: int = part, parts: int = parts) -> c.GetChangedSegments:
                    return c.GetChangedSegments(0, token, marker, part, parts)

                reply = await self._calls.ask_store(endpoint, make, c.ChangedSegments)
                following = reply.marker if following is None else following
                if not reply.complete:
                    break
                changed += reply.changed
            else:
                assert following is not None
                return following, changed
            parts *= _PARTS_FACTOR
        raise UnsupportedError(f"{endpoint} has more changed segments than it can say")

    # ---- bytes

    async def append(
        self,
        segment: str,
        /,
        data: bytes | bytearray | memoryview,
        updates: Sequence[AttributeUpdate] = (),
        expected_offset: int = -1,
    ) -> int | None:
        """The protocol has no updates of attributes with an append. Raises UnsupportedError."""
        if updates:
            raise UnsupportedError("an append over connections updates no attributes; update them one by one")
        if len(data) > _APPEND_BYTES_MAX:
            raise EventTooLargeError(len(data), _APPEND_BYTES_MAX)
        return await self._appends.append(segment, bytes(data), expected_offset)

    async def read(self, segment: str, /, offset: int, length_max: int, *, wait: bool) -> RemoteRead:
        if offset < 0 or length_max < 1:
            raise InvalidArgumentError(f"cannot read {length_max} bytes at {offset}")
        if not wait:
            # The protocol only has reads that wait.
            facts = await self.segment_info(segment)
            if offset >= facts.length and not facts.sealed:
                return RemoteRead(offset, b"", at_tail=True, end_of_segment=False)
        while True:
            try:
                found = await self._read(segment, offset, min(length_max, READ_BYTES_MAX), wait=wait)
            except (OwnershipError, ConnectionLostError):
                if not wait or self._connected.pool.closed:
                    raise
                await asyncio.sleep(_POLL_PAUSE_S)
            else:
                return found

    async def _read(self, segment: str, offset: int, length: int, *, wait: bool) -> RemoteRead:
        block = await self._calls.ask(
            segment,
            lambda token: c.ReadSegment(segment, offset, length, token),
            ReadBlock,
            timeout_s=None if wait else TIMEOUT_S,
        )
        return RemoteRead(block.offset, bytes(block.data), block.at_tail, block.end_of_segment)

    # ---- merges and attributes

    async def merge_segments(self, target: str, source: str, updates: Sequence[AttributeUpdate] = ()) -> int:
        def make(token: str) -> c.MergeSegments:
            return c.MergeSegments(0, target, source, token, list(updates))

        try:
            reply = await self._calls.ask(target, make, c.SegmentsMerged, about=source, repeats=False)
        except PreconditionError:
            first = updates[0]
            actual = await self.get_attribute(target, first.attribute_id)
            raise AttributeMismatchError(target, first.attribute_id, first.expected, actual) from None
        return reply.new_target_write_offset

    async def merge_batch(self, target: str, sources: Sequence[str]) -> list[int]:
        def make(token: str) -> c.MergeSegmentsBatch:
            return c.MergeSegmentsBatch(0, target, list(sources), token)

        reply = await self._calls.ask(target, make, c.SegmentsBatchMerged, repeats=False)
        return [each.new_target_write_offset for each in reply.merged]

    async def get_attribute(self, segment: str, /, attribute_id: bytes) -> int:
        reply = await self._calls.ask(
            segment, lambda token: c.GetSegmentAttribute(0, segment, attribute_id, token), c.SegmentAttribute
        )
        return reply.value

    async def update_attribute(self, segment: str, /, attribute_id: bytes, value: int, expected: int) -> bool:
        def make(token: str) -> c.UpdateSegmentAttribute:
            return c.UpdateSegmentAttribute(0, segment, attribute_id, value, expected, token)

        reply = await self._calls.ask(segment, make, c.SegmentAttributeUpdated, repeats=False)
        return reply.success


def _check_count(segments: Sequence[str]) -> None:
    if len(segments) > BULK_NAMES_MAX:
        raise InvalidArgumentError(f"{len(segments)} segments in one call; {BULK_NAMES_MAX} are the most")
