"""Accepts append blocks: checks them against the accepted state and copies them, once, into the open frame.

Blocks of one owner and segment that arrive in a row lie next to each other in the frame as one *run*, one
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
from headrace.segmentstore.durablelog.loop_turn import LoopTurn
from headrace.segmentstore.durablelog.processor_statistics import ProcessorStatistics
from headrace.segmentstore.operations import catalogue as ops
from headrace.segmentstore.operations import codec
from headrace.segmentstore.operations.catalogue import OperationKind
from headrace.segmentstore.state import transitions
from headrace.segmentstore.state.container_state import ContainerState
from headrace.segmentstore.state.segment_state import SegmentState

_RUN_HEAD: Final = codec.RUN.size
RUN_OVERHEAD: Final = ENTRY_HEADER.size + _RUN_HEAD
"""Bytes of a frame that a run takes besides its payload."""


class AppendOwner(Protocol):
    """One writer on one connection on one segment: where the answers to its appends go."""

    writer_id: bytes

    def on_durable(self, last_event_number: int, request_id: int, segment_length: int) -> None:
        """A run became durable. One call per run, in order; several runs may end in one iteration of the
        loop.
        """

    def on_failed(self, error: HeadraceError) -> None:
        """The container ended: whether runs in flight are durable is unknown."""


class OpenRun:
    """Blocks of one owner and segment that lie next to each other in one frame."""

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
        """The payload of a block too large for one frame; in-frame runs find theirs in the frame."""


class AppendRuns:
    """The run that is open, and how blocks get into it. At most one run is open: the log has one order."""

    __slots__ = ("_builder", "_container", "_stats", "_turn", "current", "ended")

    def __init__(
        self,
        container: ContainerState,
        builder: FrameBuilder,
        turn: LoopTurn,
        stats: ProcessorStatistics,
    ) -> None:
        self._container = container
        self._builder = builder
        self._turn = turn
        self._stats = stats
        self.current: OpenRun | None = None
        self.ended = False
        """Set when this owner of the log stops or has failed: every further block is refused."""

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
            EventTooLargeError: the frames of the log cannot hold it; nothing changed.
            TooManyAttributesError: the segment has had too many writers to take another one; nothing changed.
            InvalidArgumentError: more events are claimed than a run can count; nothing changed.
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
            attributes.check_room(segment.name, (writer_id,))

        run = self.current
        if run is not None and (
            run.owner is not owner
            or run.segment is not segment
            or expected_offset >= 0
            or run.event_count + event_count > codec.RUN_EVENTS_MAX
            or run.frame.used + size > run.frame.capacity  # type: ignore[union-attr]  # open runs have a frame
        ):
            self.close()
            run = None
        if run is None:
            if event_count > codec.RUN_EVENTS_MAX:
                raise InvalidArgumentError(f"an append cannot have {event_count} events")
            run = self._open(owner, segment, offset, pieces, size)
        if run.frame is not None:
            frame = run.frame
            view = frame.view
            at = frame.used
            for piece in pieces:
                end = at + len(piece)
                view[at:end] = piece
                at = end
            frame.used = at
        run.length += size
        run.event_count += event_count
        run.last_event_number = last_event_number
        run.request_id = request_id
        segment.accept_block(writer_id, last_event_number, event_count, size)
        self._stats.blocks += 1
        if not self._turn.scheduled:
            self._turn.schedule()
        if run.pieces is not None:
            self.current = run  # if this failed it would stay, and the next turn end this owner
            self._write_large(run)
            self.current = None
        elif expected_offset >= 0:
            self.close()

    def _open(
        self, owner: AppendOwner, segment: SegmentState, offset: int, pieces: Sequence[memoryview], size: int
    ) -> OpenRun:
        builder = self._builder
        needed = RUN_OVERHEAD + size
        if needed > builder.content_bytes_max:
            if builder.frames_needed(needed) > builder.frames_free:
                raise EventTooLargeError(size, builder.frames_free * builder.content_bytes_max)
            builder.prepare(_RUN_HEAD + size)
            run = OpenRun(owner, segment, self._container.next_sequence(), offset)
            run.pieces = b"".join(pieces)
            return run
        frame = builder.current
        if frame is None or frame.used + needed > frame.capacity:
            frame = builder.frame_with_room(needed)
        if frame is None:
            raise ContainerOfflineError("no frame is free: ask can_accept before appending")
        run = OpenRun(owner, segment, self._container.next_sequence(), offset)
        run.frame = frame
        run.at = frame.used
        run.data_at = frame.used + RUN_OVERHEAD
        frame.used = run.data_at
        if frame.first_sequence < 0:
            frame.first_sequence = run.sequence
        self.current = run
        return run

    def close(self) -> None:
        """Write the head of the open run, if there is one, in front of its payload."""
        run = self.current
        if run is None:
            return
        frame = run.frame
        assert frame is not None
        # If this failed the run would stay open, so that its frame, whose head is not written, never leaves.
        ENTRY_HEADER.pack_into(frame.view, run.at, _RUN_HEAD + run.length, WHOLE)
        codec.RUN.pack_into(
            frame.view,
            run.at + ENTRY_HEADER.size,
            OperationKind.APPEND_RUN,
            codec.VERSION,
            0,
            run.sequence,
            run.segment.segment_id,
            run.offset,
            run.owner.writer_id,
            run.last_event_number,
            run.event_count,
            run.length,
        )
        self.current = None
        frame.items.append(run)
        self._stats.runs += 1
        self._stats.bytes_appended += run.length

    def _write_large(self, run: OpenRun) -> None:
        assert run.pieces is not None
        operation = ops.AppendRun(
            run.sequence,
            run.segment.segment_id,
            run.offset,
            run.owner.writer_id,
            run.last_event_number,
            run.event_count,
            run.pieces,
        )
        encoded = codec.encode(operation)
        written = self._builder.write(encoded, _RUN_HEAD + run.length, run, run.sequence)
        assert written, "can_accept counted the frames"
        self._stats.runs += 1
        self._stats.bytes_appended += run.length

    def end(self) -> AppendOwner | None:
        """Refuse every further block; return who waits for the run that was open."""
        self.ended = True
        run, self.current = self.current, None
        return None if run is None else run.owner
