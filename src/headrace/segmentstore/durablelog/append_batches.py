"""Accepts append blocks: checks them against the accepted state and copies them, once, into the open frame.

Consecutive blocks of one owner and segment are adjacent in the frame and form one *append batch*: one
operation with one head and one acknowledgement. This is the hottest code of the write path.

Source: ``docs/flows/append.md``, steps 4 to 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from headrace.errors import (
    AttributeMismatchError,
    ContainerOfflineError,
    EventTooLargeError,
    HeadraceError,
    InvalidArgumentError,
    OffsetMismatchError,
)
from headrace.model.attributes import ATTRIBUTE_NULL
from headrace.segmentstore.durablelog.frame_builder import FrameBuilder, OpenFrame
from headrace.segmentstore.durablelog.frame_format import ENTRY_HEADER, WHOLE
from headrace.segmentstore.durablelog.next_iteration import NextIteration
from headrace.segmentstore.durablelog.processor_statistics import ProcessorStatistics
from headrace.segmentstore.operations import catalogue as ops
from headrace.segmentstore.operations import codec
from headrace.segmentstore.operations.catalogue import OperationKind
from headrace.segmentstore.state import transitions
from headrace.segmentstore.state.container_state import ContainerState
from headrace.segmentstore.state.segment_state import SegmentState

_BATCH_HEAD: Final = codec.APPEND_BATCH.size
BATCH_OVERHEAD: Final = ENTRY_HEADER.size + _BATCH_HEAD
"""Bytes of a frame that an append batch takes besides its payload."""


class AppendOwner(Protocol):
    """One writer on one connection on one segment: where the answers to its appends go."""

    writer_id: bytes

    def on_durable(self, last_event_number: int, request_id: int, segment_length: int) -> None:
        """An append batch became durable. One call per batch, in order; an iteration of the loop may have
        several.
        """

    def on_failed(self, error: HeadraceError) -> None:
        """The container ended: whether batches in flight are durable is unknown."""


class OpenBatch:
    """Adjacent blocks of one owner and segment in one frame."""

    __slots__ = (
        "at",
        "data_at",
        "event_count",
        "frame",
        "last_event_number",
        "length",
        "offset",
        "owner",
        "pieces",
        "request_id",
        "segment",
        "sequence",
    )

    def __init__(self, owner: AppendOwner, segment: SegmentState, sequence: int, offset: int) -> None:
        self.owner = owner
        self.segment = segment
        self.sequence = sequence
        self.offset = offset
        self.length = 0
        self.event_count = 0
        self.last_event_number = 0
        self.request_id = 0
        self.at = 0
        self.data_at = 0
        self.frame: OpenFrame | None = None
        self.pieces: bytes | None = None
        """The payload of a block too large for one frame; that of any other batch is in the frame."""


class AppendBatches:
    """Adds blocks to the open append batch. At most one is open: the log has one order."""

    __slots__ = ("_builder", "_container", "_next_iteration", "_stats", "current", "ended")

    def __init__(
        self,
        container: ContainerState,
        builder: FrameBuilder,
        next_iteration: NextIteration,
        stats: ProcessorStatistics,
    ) -> None:
        self._container = container
        self._builder = builder
        self._next_iteration = next_iteration
        self._stats = stats
        self.current: OpenBatch | None = None
        self.ended = False
        """Whether this owner of the log stops or has failed: every further block is refused."""

    def append_block(
        self,
        segment: SegmentState,
        owner: AppendOwner,
        pieces: Sequence[memoryview],
        size: int,
        previous_event_number: int,
        last_event_number: int,
        event_count: int,
        request_id: int,
        expected_offset: int,
    ) -> None:
        """Accept one append block: ``pieces`` are copied before this returns.

        Raises:
            ContainerOfflineError: this owner has ended.
            NoSuchSegmentError, SegmentSealedError: nothing changed.
            AttributeMismatchError: the writer's attribute is not ``previous_event_number``; nothing changed.
            OffsetMismatchError: the segment's length is not ``expected_offset``; nothing changed.
            EventTooLargeError: the block is larger than the frames of the log; nothing changed.
            TooManyAttributesError: a scratch segment has the maximum number of writers; nothing changed.
            InvalidArgumentError: more events are claimed than a batch can count; nothing changed.
            ThrottledError: there is no memory for a frame of the log now; nothing changed.
        """
        if self.ended:
            raise ContainerOfflineError("the container has stopped; reconnect to its next owner")
        if segment.accepted_sealed or segment.accepted_deleted:
            transitions.check_appendable(segment)
        attributes = segment.attributes
        writer_id = owner.writer_id
        existing = attributes.accepted.get(writer_id, ATTRIBUTE_NULL)
        if existing != previous_event_number:
            raise AttributeMismatchError(segment.name, writer_id, previous_event_number, existing)
        offset = segment.accepted_length
        if expected_offset >= 0 and expected_offset != offset:
            raise OffsetMismatchError(segment.name, expected_offset, offset)
        if existing == ATTRIBUTE_NULL:
            attributes.check_capacity(segment.name, (writer_id,))

        batch = self.current
        if batch is not None and (
            batch.owner is not owner
            or batch.segment is not segment
            or expected_offset >= 0
            or batch.event_count + event_count > codec.BATCH_EVENTS_MAX
            or batch.frame.used + size > batch.frame.capacity  # type: ignore[union-attr]  # it is open
        ):
            self.close()
            batch = None
        if batch is None:
            if event_count > codec.BATCH_EVENTS_MAX:
                raise InvalidArgumentError(f"an append cannot have {event_count} events")
            batch = self._open(owner, segment, offset, pieces, size)
        if batch.frame is not None:
            frame = batch.frame
            view = frame.view
            at = frame.used
            for piece in pieces:
                end = at + len(piece)
                view[at:end] = piece
                at = end
            frame.used = at
        batch.length += size
        batch.event_count += event_count
        batch.last_event_number = last_event_number
        batch.request_id = request_id
        segment.accept_block(writer_id, last_event_number, event_count, size)
        self._stats.blocks += 1
        if not self._next_iteration.scheduled:
            self._next_iteration.schedule()
        if batch.pieces is not None:
            self.current = batch  # after a failure it stays current, and the next iteration ends this owner
            self._write_large(batch)
            self.current = None
        elif expected_offset >= 0:
            self.close()

    def _open(
        self, owner: AppendOwner, segment: SegmentState, offset: int, pieces: Sequence[memoryview], size: int
    ) -> OpenBatch:
        builder = self._builder
        needed = BATCH_OVERHEAD + size
        if needed > builder.content_bytes_max:
            if builder.frames_needed(needed) > builder.frames_free:
                raise EventTooLargeError(size, builder.frames_free * builder.content_bytes_max)
            builder.prepare(_BATCH_HEAD + size)
            batch = OpenBatch(owner, segment, self._container.next_sequence(), offset)
            batch.pieces = b"".join(pieces)
            return batch
        frame = builder.current
        if frame is None or frame.used + needed > frame.capacity:
            frame = builder.find_frame(needed)
        if frame is None:
            raise ContainerOfflineError("no frame is free: ask can_accept before appending")
        batch = OpenBatch(owner, segment, self._container.next_sequence(), offset)
        batch.frame = frame
        batch.at = frame.used
        batch.data_at = frame.used + BATCH_OVERHEAD
        frame.used = batch.data_at
        if frame.first_sequence < 0:
            frame.first_sequence = batch.sequence
        self.current = batch
        return batch

    def close(self) -> None:
        """Write the head of the open batch, if any, in front of its payload."""
        batch = self.current
        if batch is None:
            return
        frame = batch.frame
        assert frame is not None
        # After a failure the batch stays open, so that its frame, whose head is missing, is never sent.
        ENTRY_HEADER.pack_into(frame.view, batch.at, _BATCH_HEAD + batch.length, WHOLE)
        codec.APPEND_BATCH.pack_into(
            frame.view,
            batch.at + ENTRY_HEADER.size,
            OperationKind.APPEND_RUN,
            codec.VERSION,
            0,
            batch.sequence,
            batch.segment.segment_id,
            batch.offset,
            batch.owner.writer_id,
            batch.last_event_number,
            batch.event_count,
            batch.length,
        )
        self.current = None
        frame.items.append(batch)
        self._stats.runs += 1
        self._stats.bytes_appended += batch.length

    def _write_large(self, batch: OpenBatch) -> None:
        assert batch.pieces is not None
        operation = ops.AppendBatch(
            batch.sequence,
            batch.segment.segment_id,
            batch.offset,
            batch.owner.writer_id,
            batch.last_event_number,
            batch.event_count,
            batch.pieces,
        )
        encoded = codec.encode(operation)
        written = self._builder.write(encoded, _BATCH_HEAD + batch.length, batch, batch.sequence)
        assert written, "can_accept counted the frames"
        self._stats.runs += 1
        self._stats.bytes_appended += batch.length

    def end(self) -> AppendOwner | None:
        """Refuse every further block; return the owner of the batch that was open."""
        self.ended = True
        batch, self.current = self.current, None
        return None if batch is None else batch.owner
