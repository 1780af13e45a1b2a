"""Makes durable operations visible: state, read index, memory log; wakes readers; then answers. In log order.

Source: ``docs/flows/append.md``, steps 9 and 10.
"""

from __future__ import annotations

import asyncio
from typing import Any

from headrace.runtime.clock import Clock
from headrace.segmentstore.contract import (
    ReadIndex,
    StoredCheckpoint,
    StoredDelete,
    StoredMerge,
    StoredSeal,
    StoredTruncate,
)
from headrace.segmentstore.durablelog.append_batches import OpenBatch
from headrace.segmentstore.durablelog.frame_builder import OpenFrame
from headrace.segmentstore.durablelog.memory_log import OperationMemoryLog
from headrace.segmentstore.operations import catalogue as ops
from headrace.segmentstore.operations.catalogue import Operation
from headrace.segmentstore.state import transitions
from headrace.segmentstore.state.container_state import ContainerState
from headrace.segmentstore.state.segment_state import SegmentState


class Ticket:
    """An operation, the address of the frame in which it ends, and the future that notifies its caller."""

    __slots__ = ("address", "future", "operation")

    def __init__(self, operation: Operation, future: asyncio.Future[Any]) -> None:
        self.operation = operation
        self.future = future
        self.address = -1


class DurableApply:
    """Applies durable frames. Has no state of its own."""

    __slots__ = ("_clock", "_container", "_memory_log", "_read_index")

    def __init__(
        self, container: ContainerState, read_index: ReadIndex, memory_log: OperationMemoryLog, clock: Clock
    ) -> None:
        self._container = container
        self._read_index = read_index
        self._memory_log = memory_log
        self._clock = clock

    def apply(self, frame: OpenFrame) -> None:
        """Make the items of a durable frame visible, then answer their callers, all in log order.

        Raises:
            DataCorruptionError: an item could not be made visible; the container ends.
        """
        time_ms = self._clock.now_ms()
        touched: dict[SegmentState, None] = {}
        append = self._read_index.append  # wakes waiting readers, which run after this method
        add_append = self._memory_log.add_append
        for item in frame.items:
            if type(item) is OpenBatch:
                segment = item.segment
                data = (
                    frame.view[item.data_at : item.data_at + item.length]
                    if item.pieces is None
                    else memoryview(item.pieces)
                )
                end = item.offset + item.length
                segment.apply_batch(
                    item.owner.writer_id, item.last_event_number, item.event_count, end, time_ms
                )
                if item.length:  # an empty append changes its writer's attribute and stores nothing
                    append(segment, item.offset, data)
                    add_append(item.sequence, segment, item.offset, item.length)
            else:
                operation = item.operation
                make_visible(self._container, operation, time_ms, self._read_index, self._memory_log, touched)
        for segment in touched:
            self._read_index.on_changed(segment)
        for item in frame.items:
            if type(item) is OpenBatch:
                item.owner.on_durable(item.last_event_number, item.request_id, item.offset + item.length)
            elif not item.future.done():
                item.future.set_result(item)


def make_visible(
    container: ContainerState,
    operation: Operation,
    time_ms: int,
    read_index: ReadIndex,
    memory_log: OperationMemoryLog,
    touched: dict[SegmentState, None],
) -> None:
    """Apply one durable operation to the state, the read index and the memory log. Recovery uses it too."""
    transitions.apply(container, operation, time_ms)
    match operation:
        case ops.AppendBatch() | ops.Append():
            segment = container.by_id[operation.segment_id]
            if len(operation.data):
                read_index.append(segment, operation.offset, memoryview(operation.data))
                memory_log.add_append(operation.sequence, segment, operation.offset, len(operation.data))
        case ops.Seal():
            segment = container.by_id[operation.segment_id]
            memory_log.add(StoredSeal(operation.sequence, segment))
        case ops.Truncate():
            segment = container.by_id[operation.segment_id]
            memory_log.add(StoredTruncate(operation.sequence, segment, operation.offset))
        case ops.Merge():
            segment = container.by_id[operation.segment_id]
            source = container.by_id[operation.source_id]
            if operation.length:
                read_index.begin_merge(segment, operation.offset, source, operation.length)
                memory_log.add(
                    StoredMerge(operation.sequence, segment, source, operation.offset, operation.length)
                )
            else:  # no bytes to merge
                memory_log.add(StoredDelete(operation.sequence, source))
            touched[source] = None
        case ops.Delete():
            segment = container.by_id[operation.segment_id]
            memory_log.add(StoredDelete(operation.sequence, segment))
        case ops.CheckpointEnd():
            memory_log.add(StoredCheckpoint(operation.sequence))
            return
        case _:
            return
    touched[segment] = None
