"""Changes of one segment: each becomes one operation of the log, answered once that is durable."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from headrace.errors import ContainerOfflineError, SegmentSealedError
from headrace.model.attributes import AttributeUpdate
from headrace.segmentstore.attributes.attribute_values import AttributeValues
from headrace.segmentstore.durablelog.durable_log import DurableLog
from headrace.segmentstore.durablelog.operation_processor import Propose
from headrace.segmentstore.operations import catalogue as ops
from headrace.segmentstore.operations.catalogue import Buffer
from headrace.segmentstore.state import transitions
from headrace.segmentstore.state.segment_state import SegmentState

_UPDATE_BYTES = 300
"""Upper bound of the bytes of one attribute update in the log."""


class SegmentChanges:
    """The changes of a container's segments. A segment stays active while one is in flight."""

    def __init__(self, log: DurableLog, values: AttributeValues) -> None:
        self._log = log
        self._values = values

    async def append(
        self,
        segment: SegmentState,
        data: Buffer,
        updates: Sequence[AttributeUpdate] = (),
        expected_offset: int = -1,
    ) -> int:
        """Append atomically; return the offset at which ``data`` begins, once it is durable.

        ``data`` must not change until then. Raises as :func:`transitions.propose_append`.
        """

        def propose(sequence: int) -> ops.Append:
            return transitions.propose_append(segment, sequence, data, updates, expected_offset)

        ticket = await self._submit(segment, propose, len(data), updates)
        offset: int = ticket.operation.offset
        return offset

    async def update_attributes(self, segment: SegmentState, updates: Sequence[AttributeUpdate]) -> None:
        """Apply all updates or none. Raises SegmentSealedError, AttributeMismatchError,
        NoSuchSegmentError.
        """

        def propose(sequence: int) -> ops.UpdateAttributes:
            return transitions.propose_update(segment, sequence, updates)

        await self._submit(segment, propose, 0, updates)

    async def seal(self, segment: SegmentState) -> int:
        """Seal; return the final length. Raises SegmentSealedError if it is sealed (durably) already."""
        try:
            ticket = await self._submit(segment, partial(transitions.propose_seal, segment))
        except SegmentSealedError:
            if not segment.sealed:
                await self._log.flush()  # another caller's seal: true only once durable
                if not segment.sealed:
                    raise ContainerOfflineError("the log failed before the seal was durable") from None
            raise
        length: int = ticket.operation.offset
        return length

    async def truncate(self, segment: SegmentState, offset: int) -> None:
        """Drop everything below ``offset``. Raises SegmentTruncatedError outside [start, length]."""

        def propose(sequence: int) -> ops.Truncate:
            return transitions.propose_truncate(segment, sequence, offset)

        await self._submit(segment, propose)

    async def delete(self, segment: SegmentState) -> None:
        """Raises NoSuchSegmentError if it is retired already."""
        await self._submit(segment, partial(transitions.propose_delete, segment), deletes=True)

    async def _submit(
        self,
        segment: SegmentState,
        propose: Propose,
        size_bytes: int = 0,
        updates: Sequence[AttributeUpdate] = (),
        *,
        deletes: bool = False,
    ) -> Any:
        with segment.held():
            if not updates:
                return await self._log.submit(propose, size_bytes, segments=(segment,), deletes=deletes)
            size_bytes += _UPDATE_BYTES * len(updates)
            async with self._values.held(segment, [update.attribute_id for update in updates]):
                return await self._log.submit(propose, size_bytes, segments=(segment,), deletes=deletes)
