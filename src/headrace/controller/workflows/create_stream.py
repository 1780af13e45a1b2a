"""Create a stream and the stream of its watermarks.

1. Both rows, in state CREATING, in one update: the names are taken.
2. All segments of both.
3. The row in its bucket's index, if the stream has a retention policy.
4. Both rows ACTIVE, in one update.

A controller that finds a row in CREATING goes on at 2 with the stored configuration.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from headrace.controller.context import ControllerContext
from headrace.controller.store.contract import ABSENT, Write
from headrace.controller.store.layout import RETENTION, STREAM, member_key
from headrace.controller.store.rows.stream_row import StreamRow, StreamState, encode_stream
from headrace.controller.streams.epochs import first_epoch
from headrace.controller.streams.scopes import Scope
from headrace.controller.streams.stream import Stream
from headrace.controller.workflows.new_segments import create_segments
from headrace.errors import (
    MetadataConflictError,
    NoSuchScopeError,
    NoSuchTableError,
    OverloadError,
    OwnershipError,
    StreamBusyError,
    StreamExistsError,
    UnknownOutcomeError,
)
from headrace.model.names import MARK_PREFIX, check_internal_name
from headrace.model.policies import RetentionKind, StreamConfiguration


async def create_stream(
    context: ControllerContext, scope_name: str, name: str, config: StreamConfiguration
) -> Stream:
    """Create a stream and return it when it is ACTIVE.

    Raises:
        InvalidArgumentError: the name is not legal.
        NoSuchScopeError: the scope does not exist or takes nothing new.
        StreamExistsError: it exists; one that was half-created is complete now.
        StreamBusyError: one of that name is being deleted.
    """
    check_internal_name(name, "stream")
    scope = await context.scopes.get(scope_name)
    present = await context.directory.find_in(scope, name)
    if present is None:
        wanted = {name: config}
        if not name.startswith("_"):  # internal streams have no watermarks
            wanted[MARK_PREFIX + name] = StreamConfiguration()
        try:
            streams = await begin_creation(context, scope, wanted)
        except (MetadataConflictError, UnknownOutcomeError):
            streams = None
        if streams is not None:
            await finish_creation(context, streams)
            return streams[0]
        present = await context.directory.find_in(scope, name)
        if present is None:  # only the stream of watermarks is in the way: an earlier deletion left it
            streams = await begin_creation(context, scope, {name: config})
            await finish_creation(context, streams)
            return streams[0]
    if present.row.deleting:
        raise StreamBusyError(f"stream {present.full_name} is being deleted")
    if present.row.state is StreamState.CREATING:
        mark = await context.directory.find(scope_name, MARK_PREFIX + name)
        await finish_creation(context, [present] if mark is None else [present, mark])
    raise StreamExistsError(f"stream {present.full_name} exists")


async def begin_creation(
    context: ControllerContext, scope: Scope, wanted: dict[str, StreamConfiguration]
) -> list[Stream]:
    """Take the names: write every row or none. Raises MetadataConflictError if one of them exists."""
    firsts = await context.numbering.first_numbers(STREAM, scope.name, list(wanted))
    created = [
        new_stream_row(context, name, config, first)
        for (name, config), first in zip(wanted.items(), firsts, strict=True)
    ]
    rows, writes = [row for row, _ in created], [write for _, write in created]
    try:
        versions = await context.store.update(scope.table, writes)
    except NoSuchTableError:
        raise NoSuchScopeError(f"scope {scope.name!r} does not exist") from None
    return [
        context.directory.learn(scope.name, name, scope.table, row, version)
        for name, row, version in zip(wanted, rows, versions, strict=True)
    ]


def new_stream_row(
    context: ControllerContext, name: str, config: StreamConfiguration, first_number: int
) -> tuple[StreamRow, Write]:
    """Return the first row of a stream and the write that takes its name."""
    now_ms = context.clock.now_ms()
    row = StreamRow(
        uid=context.entropy.uuid4_bytes(),
        created_ms=now_ms,
        state=StreamState.CREATING,
        config=config,
        epoch=first_epoch(config.scaling.segments_min, first_number, now_ms),
    )
    return row, Write(member_key(STREAM, name), encode_stream(row), ABSENT)


async def finish_creation(context: ControllerContext, streams: Sequence[Stream]) -> None:
    """Create the segments of streams of one scope, then make all of them ACTIVE.

    What fails on the way is left to the owners of their buckets: its caller may not come back.
    """
    try:
        await _finish_creation(context, streams)
    except (OwnershipError, OverloadError, UnknownOutcomeError):
        for stream in streams:
            context.wake(stream)
        raise


async def _finish_creation(context: ControllerContext, streams: Sequence[Stream]) -> None:
    for stream in streams:
        row = stream.row
        if row.state is StreamState.CREATING:
            await create_segments(
                context,
                stream,
                row.epoch.segments,
                policy=row.config.scaling,
                rollover_bytes=row.config.rollover_size_bytes,
            )
            if row.config.retention.kind is not RetentionKind.NONE:
                now_ms = context.clock.now_ms()
                await context.bucket_index.add(RETENTION, stream.scope, stream.name, now_ms)
    creating = [stream for stream in streams if stream.row.state is StreamState.CREATING]
    if not creating:
        return
    rows = [activate(stream.row) for stream in creating]
    writes = [
        Write(stream.key, encode_stream(row), stream.version)
        for stream, row in zip(creating, rows, strict=True)
    ]
    try:
        versions = await context.store.update(creating[0].table, writes)
    except (MetadataConflictError, UnknownOutcomeError):
        for stream in reversed(creating):  # the last to be ACTIVE is the one that a repeated call looks at
            await stream.refresh()
            await stream.update(activate)
        return
    for stream, row, version in zip(creating, rows, versions, strict=True):
        stream.adopt(row, version)


def activate(row: StreamRow) -> StreamRow:
    """CREATING -> ACTIVE, unless it has happened or the stream is being deleted."""
    if row.state is not StreamState.CREATING or row.deleting:
        return row
    return replace(row, state=StreamState.ACTIVE)
