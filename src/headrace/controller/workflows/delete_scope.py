"""Delete a scope with everything in it.

1. The scope is closed: nothing new can be created in it.
2. Reader groups, streams and key-value tables are deleted, until none is left.
3. The empty scope is deleted.
"""

from __future__ import annotations

import contextlib

from headrace.controller.context import ControllerContext
from headrace.controller.streams.scopes import Scope
from headrace.controller.workflows.key_value_tables import KeyValueTables
from headrace.controller.workflows.reader_groups import ReaderGroups
from headrace.controller.workflows.stream_requests import StreamRequests
from headrace.errors import (
    InvalidArgumentError,
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
        closed = await self._context.scopes.close(scope)
        if closed is not None:
            await self.resume(closed)

    async def resume(self, scope: Scope) -> None:
        """Delete a scope that was closed, and no later one of its name: another controller may be faster, and
        the name be used again.
        """
        while True:
            # A scope whose table is gone already has no members to delete; its row may still be there.
            with contextlib.suppress(NoSuchScopeError):
                await self._delete_groups(scope)
                await self._delete_streams(scope)
                await self._delete_tables(scope)
            try:
                await self._context.scopes.delete(scope.name, scope.row.uid)
            except ScopeNotEmptyError:
                continue
            except NoSuchScopeError:
                pass
            return

    async def _delete_groups(self, scope: Scope) -> None:
        while groups := (await self._groups.rows.page_in(scope, b"", _PAGE_ROWS))[0]:
            for group in groups:
                with contextlib.suppress(NoSuchReaderGroupError):
                    await self._groups.delete_member(group)

    async def _delete_streams(self, scope: Scope) -> None:
        directory = self._context.directory
        while streams := (await directory.page_in(scope, b"", _PAGE_ROWS))[0]:
            # Streams of watermarks go with their owners; one whose owner is gone goes by itself.
            for name, _ in sorted(streams, key=lambda each: each[0].startswith("_")):
                stream = await directory.find_in(scope, name)
                if stream is not None:
                    await StreamRequests(self._context).delete_whole(stream)

    async def _delete_tables(self, scope: Scope) -> None:
        while tables := (await self._tables.rows.page_in(scope, b"", _PAGE_ROWS))[0]:
            for table in tables:
                await self._tables.delete_member(table)
