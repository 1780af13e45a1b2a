"""The conditions and effects of each operation.

This is the only code that changes the state of a container, together with the methods of
:class:`.SegmentState` and :class:`.ContainerState`, which are also called for changes that are no operations.

Three steps, in this order, each a plain function:

* *propose*: check a request against the accepted state, in the documented order of checks (attributes before
  offsets), and return the operation that carries it out. Nothing has changed if it raises.
* *accept*: change the accepted side, for the next proposal.
* *apply*: the operation is durable; change the side of readers and callers.

Recovery calls *accept* and *apply* for the operations of the log, after :func:`check_replay`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from headrace.errors import (
    ContainerOfflineError,
    DataCorruptionError,
    InvalidArgumentError,
    NoSuchSegmentError,
    OffsetMismatchError,
    SegmentExistsError,
    SegmentMergedError,
    SegmentNotSealedError,
    SegmentSealedError,
    SegmentTruncatedError,
    TooManyActiveSegmentsError,
)
from headrace.model.attributes import AttributeUpdate
from headrace.segmentstore.operations import catalogue as ops
from headrace.segmentstore.operations.catalogue import Buffer, Operation
from headrace.segmentstore.state.container_state import ContainerState
from headrace.segmentstore.state.eviction_plan import Candidate
from headrace.segmentstore.state.metadata_checkpoint import decode_segment_row, is_of_version_1
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.storage.metadata.rows import segment_key

# ------------------------------------------------------------------------------------------ propose


def check_active(segment: SegmentState) -> None:
    """Raise ContainerOfflineError if this object was evicted: its caller has to look the segment up again."""
    if segment.evicted:
        raise ContainerOfflineError(f"segment {segment.name!r} was evicted meanwhile; look it up again")


def check_live(segment: SegmentState) -> None:
    if segment.accepted_deleted:
        check_active(segment)
        raise NoSuchSegmentError(segment.name)
    if segment.accepted_merged:
        raise SegmentMergedError(segment.name)


def check_appendable(segment: SegmentState) -> None:
    """Raise NoSuchSegmentError (also for merged ones, as the protocol requires) or SegmentSealedError."""
    if segment.accepted_deleted or segment.accepted_merged:
        check_active(segment)
        raise NoSuchSegmentError(segment.name)
    if segment.accepted_sealed:
        raise SegmentSealedError(segment.name)


def propose_append(
    segment: SegmentState,
    sequence: int,
    data: Buffer,
    updates: Sequence[AttributeUpdate],
    expected_offset: int,
) -> ops.Append:
    check_appendable(segment)
    values = segment.attributes.propose(segment.name, updates)
    if expected_offset >= 0 and expected_offset != segment.accepted_length:
        raise OffsetMismatchError(segment.name, expected_offset, segment.accepted_length)
    return ops.Append(sequence, segment.segment_id, segment.accepted_length, values, data)


def propose_seal(segment: SegmentState, sequence: int) -> ops.Seal:
    check_live(segment)
    if segment.accepted_sealed:
        raise SegmentSealedError(segment.name)
    return ops.Seal(sequence, segment.segment_id, segment.accepted_length)


def propose_truncate(segment: SegmentState, sequence: int, offset: int) -> ops.Truncate:
    check_live(segment)
    if not segment.accepted_start_offset <= offset <= segment.accepted_length:
        raise SegmentTruncatedError(segment.name, segment.accepted_start_offset, offset)
    return ops.Truncate(sequence, segment.segment_id, offset)


def propose_merge(
    target: SegmentState, source: SegmentState, sequence: int, updates: Sequence[AttributeUpdate]
) -> ops.Merge:
    check_appendable(target)
    check_live(source)
    if not source.accepted_sealed:
        raise SegmentNotSealedError(source.name)
    check_whole(target, source)
    values = target.attributes.propose(target.name, updates)
    return ops.Merge(
        sequence,
        target.segment_id,
        source.segment_id,
        target.accepted_length,
        source.accepted_length,
        values,
    )


def check_whole(target: SegmentState, source: SegmentState) -> None:
    """Raise InvalidArgumentError for a source that can never be merged into ``target``."""
    if source is target or source.accepted_start_offset != 0:
        raise InvalidArgumentError(
            f"segment {source.name!r} is truncated, or the target itself: cannot merge"
        )


def propose_delete(segment: SegmentState, sequence: int) -> ops.Delete:
    if segment.accepted_deleted or segment.accepted_merged:
        check_active(segment)
        raise NoSuchSegmentError(segment.name)
    return ops.Delete(sequence, segment.segment_id)


def propose_map(
    container: ContainerState, sequence: int, name: str, values: Mapping[bytes, int]
) -> ops.MapSegment:
    if name in container.by_name:
        raise SegmentExistsError(name)
    _check_free_slot(container)
    return ops.MapSegment(sequence, sequence, name, values)


def propose_activate(
    container: ContainerState, sequence: int, segment_id: int, row: Buffer
) -> ops.ActivateSegment:
    _check_free_slot(container)
    assert segment_id not in container.by_id, "one activation of a name at a time, and only if it is inactive"
    return ops.ActivateSegment(sequence, segment_id, row)


def _check_free_slot(container: ContainerState) -> None:
    if container.is_full:
        raise TooManyActiveSegmentsError(container.container_id, container.active_max)


def propose_evict(
    sequence: int, candidates: Sequence[Candidate], is_idle: Callable[[Candidate], bool]
) -> ops.EvictSegments:
    """Evict those of the candidates that are unchanged since they were chosen, and idle."""
    idle = [each for each in candidates if each.state.last_used == each.last_used and is_idle(each)]
    return ops.EvictSegments(sequence, [each.state.segment_id for each in idle])


def propose_update(
    segment: SegmentState, sequence: int, updates: Sequence[AttributeUpdate]
) -> ops.UpdateAttributes:
    check_live(segment)
    if segment.accepted_sealed:
        raise SegmentSealedError(segment.name)
    values = segment.attributes.propose(segment.name, updates)
    return ops.UpdateAttributes(sequence, segment.segment_id, values)


# ------------------------------------------------------------------------------------------ accept


def accept(container: ContainerState, operation: Operation) -> None:
    """Change the accepted side. The operation was proposed against exactly this state, or is replayed."""
    match operation:
        case ops.CheckpointBegin() | ops.CheckpointPart() | ops.CheckpointEnd():
            return
        case ops.StorageRows():
            _set_rows(container.accepted_storage_rows, operation.changes)
            for key in operation.changes:
                container.note_index(key)
            return
        case ops.MapSegment():
            state = SegmentState(operation.segment_id, operation.name, last_used=operation.sequence)
            state.attributes.accept(operation.values)
            container.insert(state)
            return
        case ops.ActivateSegment():
            if operation.segment_id not in container.by_id:
                container.insert(activated(operation))
            rows = container.accepted_storage_rows
            rows.update(operation.storage_rows)
            index_key = segment_key(container.by_id[operation.segment_id].index_storage_name)
            if index_key in rows:
                container.note_index(index_key)
            return
        case ops.EvictSegments():
            for segment_id in operation.segment_ids:
                container.evict(segment_id)
            _remove_rows(container.accepted_storage_rows, operation)
            return
        case _:
            pass  # about one existing segment: below
    segment = container.by_id[operation.segment_id]
    segment.checkpoint_row = None
    segment.last_used = operation.sequence
    match operation:
        case ops.AppendBatch():
            segment.accept_block(
                operation.writer_id, operation.last_event_number, operation.event_count, len(operation.data)
            )
        case ops.Append():
            segment.accepted_length += len(operation.data)
            segment.attributes.accept(operation.values)
        case ops.Seal():
            segment.accepted_sealed = True
        case ops.Truncate():
            segment.accepted_start_offset = operation.offset
        case ops.Merge():
            segment.accepted_length += operation.length
            segment.attributes.accept(operation.values)
            source = container.by_id[operation.source_id]
            source.accepted_merged = True
            source.checkpoint_row = None
            container.retire(source)
        case ops.Delete():
            segment.accepted_deleted = True
            container.retire(segment)
        case ops.UpdateAttributes():
            segment.attributes.accept(operation.values)


def activated(operation: ops.ActivateSegment) -> SegmentState:
    """Return the segment of an activation, which is all durable and stored.

    Raises:
        DataCorruptionError: the row does not decode, or is that of another segment.
    """
    state = decode_segment_row(operation.row)
    if state.segment_id != operation.segment_id:
        raise DataCorruptionError(f"segment {operation.segment_id} is activated by a row of another one")
    state.note_all_stored()
    state.last_used = operation.sequence
    if not is_of_version_1(operation.row):
        state.checkpoint_row = bytes(operation.row)
    return state


def _set_rows(rows: dict[str, bytes], changes: Mapping[str, bytes | None]) -> None:
    for key, value in changes.items():
        if value is None:
            rows.pop(key, None)
        else:
            rows[key] = value


def _remove_rows(rows: dict[str, bytes], eviction: ops.EvictSegments) -> None:
    for keys in eviction.storage_keys:
        for key in keys:
            del rows[key]


# ------------------------------------------------------------------------------------------ apply


def apply(container: ContainerState, operation: Operation, time_ms: int) -> None:
    """Change the durable side: the log has acknowledged ``operation``, in a frame sealed at ``time_ms``."""
    match operation:
        case ops.CheckpointBegin() | ops.CheckpointPart() | ops.CheckpointEnd():
            return
        case ops.StorageRows():
            _set_rows(container.storage_rows, operation.changes)
            return
        case ops.EvictSegments():
            # The segments themselves were removed when the eviction was accepted.
            _remove_rows(container.storage_rows, operation)
            return
        case ops.ActivateSegment():
            container.storage_rows.update(operation.storage_rows)
            return
        case _:
            pass  # about one segment: below
    segment = container.by_id[operation.segment_id]
    segment.last_modified_ms = time_ms
    segment.checkpoint_row = None  # one encoded since the operation was accepted has the former time
    match operation:
        case ops.AppendBatch():
            end = operation.offset + len(operation.data)
            segment.apply_batch(
                operation.writer_id, operation.last_event_number, operation.event_count, end, time_ms
            )
        case ops.Append():
            segment.durable_length = operation.offset + len(operation.data)
            segment.attributes.apply(operation.values)
        case ops.Seal():
            segment.sealed = True
        case ops.Truncate():
            segment.start_offset = operation.offset
        case ops.Merge():
            segment.durable_length = operation.offset + operation.length
            segment.attributes.apply(operation.values)
            source = container.by_id[operation.source_id]
            source.merged = True
            if container.by_name.get(source.name) is source:
                del container.by_name[source.name]
        case ops.Delete():
            segment.deleted = True
            if container.by_name.get(segment.name) is segment:
                del container.by_name[segment.name]
        case ops.MapSegment() | ops.UpdateAttributes():
            segment.attributes.apply(operation.values)


# ------------------------------------------------------------------------------------------ replay


def check_replay(container: ContainerState, operation: Operation) -> None:
    """Compare an operation read back from the log with the state before it.

    Raises:
        DataCorruptionError: the log contradicts itself.
    """
    if operation.sequence <= container.sequence:
        raise DataCorruptionError(f"operation {operation.sequence} follows {container.sequence} in the log")
    match operation:
        case ops.CheckpointBegin() | ops.CheckpointPart() | ops.CheckpointEnd() | ops.StorageRows():
            return
        case ops.MapSegment():
            known = container.by_name.get(operation.name)
            if known is not None or operation.segment_id in container.by_id:
                raise DataCorruptionError(f"the log maps segment {operation.name!r} twice")
            return
        case ops.ActivateSegment():
            _check_activation(container, operation)
            return
        case ops.EvictSegments():
            for segment_id in operation.segment_ids:
                state = container.by_id.get(segment_id)
                if state is None or not state.is_settled:
                    raise DataCorruptionError(
                        f"the log evicts segment {segment_id}, which is not there, or not stored"
                    )
            for keys in operation.storage_keys:
                for key in keys:
                    if key not in container.accepted_storage_rows:
                        raise DataCorruptionError(f"the log removes row {key!r}, which is not there")
            return
        case _:
            pass  # about one existing segment: below
    segment = container.by_id.get(operation.segment_id)
    if segment is None or segment.accepted_deleted or segment.accepted_merged:
        raise DataCorruptionError(f"operation {operation.sequence} is about a segment that is not there")
    finding = _replay_finding(container, segment, operation)
    if finding:
        raise DataCorruptionError(f"operation {operation.sequence} on {segment.name!r}: {finding}")


def _check_activation(container: ContainerState, operation: ops.ActivateSegment) -> None:
    """Raise DataCorruptionError for an activation of an active segment, unless it agrees in every field:
    earlier releases logged one for a segment that was not evicted.
    """
    row = activated(operation)
    known = container.by_id.get(row.segment_id) or container.by_name.get(row.name)
    if known is None:
        return
    same = (
        known.segment_id == row.segment_id
        and known.name == row.name
        and known.accepted_length == row.accepted_length
        and known.accepted_start_offset == row.accepted_start_offset
        and known.accepted_sealed == row.accepted_sealed
        and known.attributes.checkpoint_values() == row.attributes.checkpoint_values()
        and not (known.accepted_deleted or known.accepted_merged)
        and all(
            container.accepted_storage_rows.get(key) == value for key, value in operation.storage_rows.items()
        )
    )
    if not same:
        raise DataCorruptionError(
            f"operation {operation.sequence} activates segment {row.name!r} with other content than it has"
        )


def _replay_finding(container: ContainerState, segment: SegmentState, operation: Operation) -> str:
    match operation:
        case ops.AppendBatch() | ops.Append():
            if segment.accepted_sealed:
                return "appends to a sealed segment"
            if operation.offset != segment.accepted_length:
                return f"appends at {operation.offset}, length is {segment.accepted_length}"
        case ops.Seal():
            if segment.accepted_sealed or operation.offset != segment.accepted_length:
                return f"seals at {operation.offset}, length is {segment.accepted_length}"
        case ops.Truncate():
            if not segment.accepted_start_offset <= operation.offset <= segment.accepted_length:
                return f"truncates at {operation.offset}"
        case ops.Merge():
            source = container.by_id.get(operation.source_id)
            if source is None or source.accepted_length != operation.length or not source.accepted_sealed:
                return "merges a source that does not fit"
            if source.accepted_merged or source.accepted_deleted or source.accepted_start_offset:
                return "merges a source that is gone, or truncated"
            if segment.accepted_sealed or operation.offset != segment.accepted_length:
                return f"merges at {operation.offset}, length is {segment.accepted_length}"
        case ops.UpdateAttributes():
            if segment.accepted_sealed:
                return "changes attributes of a sealed segment"
        case _:
            pass
    return ""
