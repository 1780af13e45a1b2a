"""The cut series of streams in their rows: write samples, answer where a stream was, delete a series.

The row of the series is written under the version it was read at, in one update with the blocks that it
begins to name or ceases to: any controller may do so, and of two one starts again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.controller.context import ControllerContext
from headrace.controller.policies.asked_time import check_not_in_future, check_not_too_early
from headrace.controller.policies.cut_series import (
    Addition,
    BlockPlace,
    blocks_of,
    find_block,
    find_sample,
)
from headrace.controller.store.contract import ABSENT, MetadataStore, Write
from headrace.controller.store.layout import cut_block_key, cut_series_key, details_table
from headrace.controller.store.rows.cut_series_row import (
    CutSample,
    SeriesRow,
    decode_block,
    decode_series,
    encode_block,
    encode_series,
)
from headrace.controller.streams.cut_reader import CutReader
from headrace.controller.streams.cuts import later_of, relate_cuts
from headrace.controller.streams.stream import Stream
from headrace.errors import (
    MetadataConflictError,
    NoSuchStreamError,
    UnknownOutcomeError,
)
from headrace.model.stream_cut import Relation

_ATTEMPTS_MAX: Final = 5


@dataclass(frozen=True, slots=True)
class CutAtTime:
    """Where a stream was. ``time_ms`` is the time of the sample, 0 if the answer is the head."""

    offsets: dict[int, int]
    time_ms: int
    is_head: bool


async def read_series(store: MetadataStore, uid: bytes) -> tuple[SeriesRow, int]:
    """Return the series of a stream and the version of its row, an empty one with ABSENT if it has none."""
    found = await store.get(details_table(uid), cut_series_key(uid))
    return (SeriesRow(()), ABSENT) if found is None else (decode_series(found.value), found.version)


async def write_series(store: MetadataStore, stream: Stream, addition: Addition, version: int) -> int:
    """Write what adding a sample made of the series that was read at ``version``; return the new one.

    Raises:
        MetadataConflictError: the series has changed since; nothing was written.
        NoSuchStreamError: the stream is gone, or is being deleted, and its series with it.
        UnknownOutcomeError: it may have been written.
    """
    uid = stream.uid
    writes = [Write(cut_series_key(uid), encode_series(addition.row), version)]
    writes += [Write(_key(uid, place), encode_block(block)) for place, block in addition.written]
    writes += [Write(_key(uid, place), None) for place in addition.dropped]
    try:
        versions = await store.update(details_table(uid), writes)
    except UnknownOutcomeError:
        if version == ABSENT:
            await _check_not_deleted(store, stream)
        raise
    if version == ABSENT:  # its deletion may have found none: the one that begins a series looks again
        await _check_not_deleted(store, stream)
    return versions[0]


async def _check_not_deleted(store: MetadataStore, stream: Stream) -> None:
    try:
        row = await stream.refresh()
    except NoSuchStreamError:
        await delete_series(store, stream.uid)
        raise
    if row.deleting:
        await delete_series(store, stream.uid)
        raise NoSuchStreamError(f"stream {stream.full_name} is being deleted")


async def delete_series(store: MetadataStore, uid: bytes) -> None:
    """Remove the series of a stream that is being deleted."""
    for _ in range(_ATTEMPTS_MAX):
        row, version = await read_series(store, uid)
        if version == ABSENT:
            return
        writes = [Write(cut_series_key(uid), None, version)]
        writes += [Write(_key(uid, place), None) for place in blocks_of(row)]
        try:
            await store.update(details_table(uid), writes)
        except MetadataConflictError:
            continue  # a last sample came between
        return
    raise MetadataConflictError("the cut series of a stream that is being deleted is written again and again")


async def cut_at(context: ControllerContext, stream: Stream, time_ms: int) -> CutAtTime:
    """Return the latest cut not after ``time_ms`` that is remembered, or the head if that is later.

    Everything acknowledged after ``time_ms`` lies at or behind it.

    Raises:
        InvalidArgumentError: it is in the future, or before any stream.
    """
    check_not_too_early(time_ms)
    sample, last = await _find_sample(context.store, stream.uid, time_ms)
    # A clock that was set back is behind samples that it has made.
    check_not_in_future(time_ms, max(context.clock.now_ms(), 0 if last is None else last.time_ms))
    await stream.refresh()  # another controller may have written the sample, of an epoch that is new here
    epochs = stream.epochs()
    head = epochs.row.truncation
    if sample is not None:
        offsets = dict(sample.offsets)
        if head is None:
            return CutAtTime(offsets, sample.time_ms, is_head=False)
        cuts = CutReader(epochs)
        placed, placed_head = await cuts.place(offsets), await cuts.place(dict(head))
        match relate_cuts(placed, placed_head):
            case Relation.EQUAL_OR_AFTER:
                return CutAtTime(offsets, sample.time_ms, is_head=False)
            case Relation.OVERLAPS:
                return CutAtTime(later_of(placed, placed_head), sample.time_ms, is_head=False)
            case Relation.BEFORE:
                pass
    if head is not None:
        return CutAtTime(dict(head), 0, is_head=True)
    first = (await epochs.read([0]))[0]
    return CutAtTime(dict.fromkeys(first.segment_ids(), 0), 0, is_head=True)


async def _find_sample(
    store: MetadataStore, uid: bytes, time_ms: int
) -> tuple[CutSample | None, CutSample | None]:
    """Return the latest sample not after ``time_ms``, and the last one of all."""
    for _ in range(_ATTEMPTS_MAX):
        row, _version = await read_series(store, uid)
        found = find_block(row, time_ms)
        if not isinstance(found, BlockPlace):
            return found, row.last()
        block = await store.get(details_table(uid), _key(uid, found))
        if block is not None:
            return find_sample(decode_block(block.value), time_ms), row.last()
    raise MetadataConflictError("the cut series is written faster than it is read")


def _key(uid: bytes, place: BlockPlace) -> bytes:
    return cut_block_key(uid, place.level, place.number)
