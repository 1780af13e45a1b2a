"""Delete a sealed stream with its data, its stream of watermarks and everything remembered about it.

1. Both rows say *deleting*: no call completes or recreates them meanwhile.
2. Highest segment numbers are remembered for later streams of these names.
3. Segments that were not deleted by truncations.
4. Details: sealed segments, epochs, subscribers, sinks, marks, the cut series, the retention set.
5. Both rows.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Final

from headrace.controller.context import ControllerContext
from headrace.controller.store.contract import Write
from headrace.controller.store.layout import (
    STREAM,
    details_table,
    load_marks_key,
    marks_key,
    sink_key,
    sink_names_key,
    subscribers_key,
)
from headrace.controller.store.rows.stream_row import NO_WANTS, StreamRow, StreamState
from headrace.controller.streams.stream import Stream
from headrace.controller.workflows.cuts_in_time import delete_series
from headrace.controller.workflows.truncate_stream import delete_segments
from headrace.errors import MetadataConflictError, NoSuchStreamError, NoSuchTableError, StreamNotSealedError
from headrace.model.names import MARK_PREFIX

_DELETES_AT_ONCE: Final = 1000
"""Rows of one update: an update of a table has a bound of its own, which the names of sinks may exceed."""


async def delete_stream(context: ControllerContext, stream: Stream) -> None:
    """Delete ``stream``.

    Raises:
        StreamNotSealedError: it is neither sealed nor half-created; nothing changed.
        NoSuchStreamError: it is gone.
    """
    mark = await context.directory.find(stream.scope, MARK_PREFIX + stream.name)
    await stream.refresh()  # if it is gone, the stream of watermarks belongs to a later namesake
    await stream.update(begin_delete)
    doomed = [stream]
    if mark is not None:
        with contextlib.suppress(NoSuchStreamError):  # another controller has got that far
            await mark.update(begin_delete_mark)
            doomed = [mark, stream]
    highest = {each.name: max(segment.number for segment in each.row.epoch.segments) for each in doomed}
    await context.numbering.remember(STREAM, stream.scope, highest, context.clock.now_ms())
    for each in doomed:
        await _delete_content(context, each)
    await _delete_rows(context, doomed)


def begin_delete(row: StreamRow) -> StreamRow:
    """Mark the row, if the state allows it."""
    if row.state not in {StreamState.SEALED, StreamState.CREATING}:
        raise StreamNotSealedError("the stream is not sealed: seal it first, then delete it")
    return row if row.deleting else replace(row, deleting=True)


def begin_delete_mark(row: StreamRow) -> StreamRow:
    """Mark the row of a stream of watermarks: it goes with its owner, whatever its state."""
    if row.deleting:
        return row
    return replace(
        row,
        state=StreamState.SEALED,
        scale=None,
        commit=None,
        truncating=None,
        updating=None,
        deleting=True,
        wants=NO_WANTS,
    )


async def _delete_content(context: ControllerContext, stream: Stream) -> None:
    row = stream.row
    if not await _segments_are_deleted(context, row):
        head = None if row.truncation is None else dict(row.truncation)
        await delete_segments(context, stream, stream.cuts().present(head))
    await context.directory.history.remove(row.uid, row.epoch)
    keys = [sink_key(row.uid, sink) for sink in await context.sinks.names(row.uid)]
    keys += await context.retention_sets.keys(row.uid)
    keys += [subscribers_key(row.uid), marks_key(row.uid), sink_names_key(row.uid)]
    keys += [load_marks_key(row.uid)]
    for start in range(0, len(keys), _DELETES_AT_ONCE):
        deletions = [Write(key, None) for key in keys[start : start + _DELETES_AT_ONCE]]
        await context.store.update(details_table(row.uid), deletions)
    await delete_series(context.store, row.uid)


async def _segments_are_deleted(context: ControllerContext, row: StreamRow) -> bool:
    """Whether details have begun to go, which they do only after all segments.

    The newest epoch is the first to go; with earlier releases it was epoch 0.
    """
    if row.epoch.epoch == 0:
        return False
    return not await context.directory.history.has_all(row.uid, [0, row.epoch.epoch - 1])


async def _delete_rows(context: ControllerContext, doomed: list[Stream]) -> None:
    writes = [Write(stream.key, None, stream.version) for stream in doomed]
    try:
        await context.store.update(doomed[0].table, writes)
    except NoSuchTableError:
        pass
    except MetadataConflictError:
        for stream in doomed:
            await _delete_row(context, stream)
    for stream in doomed:
        context.directory.forget(stream)


async def _delete_row(context: ControllerContext, stream: Stream) -> None:
    try:
        await stream.refresh()
    except NoSuchStreamError:
        return
    await context.store.update(stream.table, [Write(stream.key, None, stream.version)])
