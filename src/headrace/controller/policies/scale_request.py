"""May this scale happen? The checks of a request, in the order clients rely on. Pure.

Source: protocol, "Scale".
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.controller.store.rows.epoch_row import EpochRecord
from headrace.controller.store.rows.stream_row import ScalePlan, StreamRow, StreamState
from headrace.controller.streams.epochs import created_in
from headrace.errors import InvalidArgumentError, PreconditionError, StreamBusyError, StreamSealedError
from headrace.model.key_space import FULL_RANGE, KeyRange, any_overlap, join_touching, split_evenly
from headrace.model.policies import SEGMENTS_MAX


def plan_scale(row: StreamRow, sealed: Sequence[int], ranges: Sequence[KeyRange], time_ms: int) -> ScalePlan:
    """Return the plan to write into the row; the one that waits there if it is the same.

    Raises:
        StreamSealedError: the stream takes nothing new.
        StreamBusyError: another scale is pending.
        PreconditionError: a segment is not active, or too few segments would be left.
        InvalidArgumentError: the ranges are not exactly those of the sealed segments.
    """
    if row.state in {StreamState.SEALING, StreamState.SEALED} or row.deleting:
        raise StreamSealedError("the stream is sealed: it is not scaled any more")
    if row.scale is not None:
        if set(row.scale.sealed) == set(sealed) and list(row.scale.ranges) == list(ranges):
            return row.scale
        raise StreamBusyError("another scale of the stream is pending")
    active = {segment.segment_id: segment for segment in row.epoch.segments}
    missing = [segment_id for segment_id in sealed if segment_id not in active]
    if missing or not sealed or len(set(sealed)) != len(sealed):
        raise PreconditionError(f"segments {missing or list(sealed)} are not active segments, each once")
    check_ranges([active[segment_id].key_range for segment_id in sealed], ranges)
    count, count_min = len(active) - len(sealed) + len(ranges), row.config.scaling.segments_min
    if count > SEGMENTS_MAX:
        raise InvalidArgumentError(f"{count} segments would be left: a stream has at most {SEGMENTS_MAX}")
    if count < count_min:
        raise PreconditionError(
            f"{count} segments would be left: the stream's policy asks for {count_min} or more"
        )
    return ScalePlan(row.epoch.epoch, tuple(sealed), tuple(ranges), max(0, time_ms))


def check_ranges(old: Sequence[KeyRange], new: Sequence[KeyRange]) -> None:
    """Raises InvalidArgumentError unless ``new`` divides exactly the key space of ``old``, bit for bit."""
    for piece in new:
        if not 0.0 <= piece.low < piece.high <= 1.0:
            raise InvalidArgumentError(f"[{piece.low}, {piece.high}) is no range of the key space")
    if any_overlap(new):
        raise InvalidArgumentError("the new ranges overlap")
    if join_touching(old) != join_touching(new):
        raise InvalidArgumentError("the new ranges are not those of the sealed segments")


def was_last_scale(
    active: EpochRecord, before: EpochRecord | None, sealed: Sequence[int], ranges: Sequence[KeyRange]
) -> bool:
    """Whether the active epoch is what this very request led to: then its answer was lost, and it is sent
    again.
    """
    if before is None or active.reference != active.epoch:
        return False
    left = {segment.segment_id for segment in before.segments} - set(active.segment_ids())
    return left == set(sealed) and {segment.key_range for segment in created_in(active)} == set(ranges)


def plan_rescale(row: StreamRow, segment_count: int, time_ms: int) -> ScalePlan:
    """Replace all active segments by ``segment_count`` equal ones."""
    ranges = split_evenly(FULL_RANGE, segment_count)
    return ScalePlan(row.epoch.epoch, tuple(row.epoch.segment_ids()), tuple(ranges), time_ms)


def needs_rescale(row: StreamRow) -> bool:
    """Whether the configuration being applied asks for another number of segments than there are."""
    assert row.updating is not None
    scaling, count = row.updating.scaling, len(row.epoch.segments)
    return count != scaling.segments_min if scaling.kind == 0 else count < scaling.segments_min
