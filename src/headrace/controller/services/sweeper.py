"""Finds what was begun and not finished, on the buckets that were just claimed, and sees that it is finished.

It looks again on all buckets when another controller has gone, which may have written a request and not have
lived to post it to the owner; and now and then in any case, for requests whose events were dropped.

Groups, key-value tables and scopes that are being deleted belong to the bucket of their names, as streams do.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from headrace.controller.buckets.shared_look import SharedLook, until_due
from headrace.controller.context import ControllerContext
from headrace.controller.store.contract import Row
from headrace.controller.store.layout import KEY_VALUE_TABLE, READER_GROUP, RETENTION, STREAM, member_name
from headrace.controller.store.rows.group_row import GroupState, decode_group
from headrace.controller.store.rows.scope_row import ScopeState
from headrace.controller.store.rows.stream_row import NO_WANTS, StreamRow, StreamState, decode_stream
from headrace.controller.store.rows.table_row import TableState, decode_table
from headrace.controller.streams.members import Member
from headrace.controller.streams.scopes import Scope
from headrace.controller.workflows.delete_scope import ScopeDeletion
from headrace.controller.workflows.key_value_tables import KeyValueTables
from headrace.controller.workflows.reader_groups import ReaderGroups
from headrace.errors import (
    HeadraceError,
    NoSuchScopeError,
    NoSuchTableError,
    OverloadError,
    OwnershipError,
    ScopeNotEmptyError,
    UnknownOutcomeError,
)
from headrace.model.policies import RetentionKind
from headrace.runtime.logs import logger
from headrace.runtime.loop_budget import LoopBudget
from headrace.runtime.retry import RetryPolicy, retry

_log = logger(__name__)

_SCAN_ROWS: Final = 500
_AT_ONCE_MAX: Final = 16
"""Workflows of a bucket that are finished side by side: they are those of another controller, after its end,
and must not take all that the segment store has for clients.
"""
_PATIENT: Final = RetryPolicy(initial_s=0.1, multiplier=2.0, delay_max_s=30.0, attempts=1000)
_TRANSIENT: Final = (OwnershipError, OverloadError, UnknownOutcomeError)

Work = Callable[[], Awaitable[object]]


class Sweeper:
    """A ``BucketWork``: one look at all members of all scopes per claim; again when it is due."""

    name = "sweeper"

    def __init__(
        self,
        context: ControllerContext,
        deletion: ScopeDeletion,
        groups: ReaderGroups,
        tables: KeyValueTables,
    ) -> None:
        self._context = context
        self._deletion = deletion
        self._groups = groups
        self._tables = tables
        self._look = SharedLook(self._sweep)
        self._unfinished: dict[int, list[Work]] = {}
        self._done: set[int] = set()

    def is_done(self, buckets: Iterable[int]) -> bool:
        """Whether everything that was found on ``buckets`` is finished, but for the work of streams."""
        return self._done.issuperset(buckets)

    async def run(self, bucket: int) -> None:
        slots = asyncio.Semaphore(_AT_ONCE_MAX)
        while True:
            departure = self._context.buckets.departure
            await self._look.run(bucket)
            async with asyncio.TaskGroup() as group:
                for work in self._unfinished.pop(bucket, []):
                    group.create_task(self._finish(slots, work))
            self._done.add(bucket)
            try:
                await until_due(departure)  # until then, each controller looks after what it begins
            finally:
                self._done.discard(bucket)

    # ---------------------------------------------------------------------------------- look

    async def _sweep(self, buckets: frozenset[int]) -> None:
        for bucket in buckets:
            self._unfinished[bucket] = []
        for scope in await self._context.scopes.all():
            await self._sweep_scope(scope, buckets)
        _log.info("unfinished workflows were looked for", buckets=len(buckets))

    async def _sweep_scope(self, scope: Scope, buckets: frozenset[int]) -> None:
        bucket = self._context.buckets.bucket_of(scope.name, "")
        if bucket in buckets:
            match scope.row.state:
                case ScopeState.CLOSED:
                    self._unfinished[bucket].append(lambda: self._deletion.resume(scope))
                case ScopeState.DELETING:
                    with contextlib.suppress(ScopeNotEmptyError, NoSuchScopeError):
                        await self._context.scopes.delete(scope.name, scope.row.uid)
                case _:
                    pass
        token = b""
        budget = LoopBudget(_SCAN_ROWS)
        while True:
            try:
                page = await self._context.store.scan(scope.table, token, _SCAN_ROWS)
            except NoSuchTableError:
                return  # half-created or half-deleted; the next call about it finishes that
            if not page.rows:
                return
            await budget.spend(len(page.rows))
            for key, row in page.rows:
                bucket = self._context.buckets.bucket_of(scope.name, member_name(key))
                if bucket in buckets:
                    await self._sweep_member(scope, bucket, key, row)
            token = page.token

    async def _sweep_member(self, scope: Scope, bucket: int, key: bytes, row: Row) -> None:
        kind, name = key[:1], member_name(key)
        if kind == STREAM:
            await self._sweep_stream(scope, name, row)
        elif kind == READER_GROUP:
            group = Member(scope, name, decode_group(row.value), row.version)
            if group.row.state is not GroupState.ACTIVE:
                self._unfinished[bucket].append(lambda: self._groups.resume(group))
        elif kind == KEY_VALUE_TABLE:
            table = Member(scope, name, decode_table(row.value), row.version)
            if table.row.state is not TableState.ACTIVE:
                self._unfinished[bucket].append(lambda: self._tables.resume(table))

    async def _sweep_stream(self, scope: Scope, name: str, row: Row) -> None:
        context, found = self._context, decode_stream(row.value)
        if has_work(found):
            stream = context.directory.learn(scope.name, name, scope.table, found, row.version)
            context.engine.wake(stream)
        if found.config.retention.kind is not RetentionKind.NONE and not found.deleting:
            # One that an earlier release made is in the index of no bucket.
            await context.bucket_index.ensure(RETENTION, scope.name, name, context.clock.now_ms())

    # ---------------------------------------------------------------------------------- finish

    async def _finish(self, slots: asyncio.Semaphore, work: Work) -> None:
        """Do ``work`` until it is done or there is nothing to do it on."""
        async with slots:
            try:
                await retry(_PATIENT, work, entropy=self._context.entropy, retryable=_TRANSIENT)
            except HeadraceError as error:
                _log.warning("unfinished workflow was abandoned", error=str(error))


def has_work(row: StreamRow) -> bool:
    """Whether a row says that something was begun and not finished."""
    begun = row.deleting or row.state not in {StreamState.ACTIVE, StreamState.SEALED}
    return begun or row.truncating is not None or row.scale is not None or row.wants != NO_WANTS
