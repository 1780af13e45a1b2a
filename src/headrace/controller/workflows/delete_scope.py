"""Delete a scope with everything in it.

1. The scope is closed: nothing new can be created in it.
2. Reader groups, streams and key-value tables are deleted, until none is left.
3. The empty scope is deleted.
"""

from __future__ import annotations

import contextlib

from headrace.controller.context import ControllerContext
from headrace.controller.workflows.key_value_tables import KeyValueTables
from headrace.controller.workflows.reader_groups import ReaderGroups
from headrace.controller.workflows.stream_requests import delete_whole_stream
from headrace.errors import (
    InvalidArgumentError,
    NoSuchKeyValueTableError,
    NoSuchReaderGroupError,
    NoSuchScopeError,
    ScopeNotEmptyError,
)
from headrace.model.names import SYSTEM_SCOPE

_PAGE_ROWS = 100


class ScopeDeletion:
    """Deletes scopes recursively; several at once do no harm. Used on the controller's loop."""

    def __init__(self, context: ControllerContext, groups: ReaderGroups, tables: KeyValueTables) -> None:
        self._context = context
        self._groups = groups
        self._tables = tables

    async def delete(self, scope: str) -> None:
        """Delete ``scope``; one that does not exist is deleted already.

        Raises:
            InvalidArgumentError: it is the scope of the system.
        """
        if scope == SYSTEM_SCOPE:
            raise InvalidArgumentError("the scope of the system is not deleted")
        if not await self._context.scopes.close(scope):
            return
        while True:
            # A scope whose table is gone already has no members to delete; its row may still be there.
            with contextlib.suppress(NoSuchScopeError):
                await self._delete_groups(scope)
                await self._delete_streams(scope)
                await self._delete_tables(scope)
            try:
                await self._context.scopes.delete(scope)
            except ScopeNotEmptyError:
                continue
            except NoSuchScopeError:
                pass
            return

    async def _delete_groups(self, scope: str) -> None:
        while members := (await self._groups.rows.page(scope, b"", _PAGE_ROWS))[0]:
            for group in members:
                try:
                    await self._groups.delete(scope, group.name, None)
                except NoSuchReaderGroupError:
                    continue

    async def _delete_streams(self, scope: str) -> None:
        while streams := (await self._context.directory.page(scope, b"", _PAGE_ROWS))[0]:
            # Streams of watermarks go with their owners; one whose owner is gone goes by itself.
            for name, _ in sorted(streams, key=lambda each: each[0].startswith("_")):
                await delete_whole_stream(self._context, scope, name)

    async def _delete_tables(self, scope: str) -> None:
        while members := (await self._tables.rows.page(scope, b"", _PAGE_ROWS))[0]:
            for table in members:
                try:
                    await self._tables.delete(scope, table.name)
                except NoSuchKeyValueTableError:
                    continue
