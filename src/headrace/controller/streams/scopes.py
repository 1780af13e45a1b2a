"""Scopes: make them, find them, list them, remove them when they are empty.

A scope's members live in a table of its own. A scope is created row first and removed table first, so that
the table's own guarantee decides whether it is empty, also against streams that are being created at that
moment.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from headrace.controller.store.contract import ABSENT, MetadataStore, Write
from headrace.controller.store.layout import SCOPES, members_table
from headrace.controller.store.rows.scope_row import ScopeRow, ScopeState, decode_scope, encode_scope
from headrace.errors import (
    MetadataConflictError,
    NoSuchScopeError,
    ScopeExistsError,
    ScopeNotEmptyError,
    TableNotEmptyError,
    UnknownOutcomeError,
)
from headrace.model.names import SYSTEM_SCOPE, check_internal_name
from headrace.runtime.clock import Clock
from headrace.runtime.entropy import Entropy


@dataclass(slots=True)
class Scope:
    """A scope as it was read; ``table`` holds its members."""

    name: str
    row: ScopeRow
    version: int

    @property
    def table(self) -> str:
        return members_table(self.name, self.row.uid)


class Scopes:
    """All scopes. Nothing of them is cached: any controller may change them."""

    def __init__(self, store: MetadataStore, clock: Clock, entropy: Entropy) -> None:
        self._store = store
        self._clock = clock
        self._entropy = entropy

    async def get(self, name: str) -> Scope:
        """Return a scope that takes new members. Raises NoSuchScopeError (also for one being deleted)."""
        scope = await self.find(name)
        if scope is None or scope.row.state is not ScopeState.ACTIVE:
            raise NoSuchScopeError(f"scope {name!r} does not exist")
        return scope

    async def find(self, name: str) -> Scope | None:
        """Return the scope whatever its state."""
        row = await self._store.get(SCOPES, name.encode("utf-8", "replace")) if name else None
        return None if row is None else Scope(name, decode_scope(row.value), row.version)

    async def create(self, name: str) -> None:
        """Create an empty scope, also one that another caller has half-created.

        Raises:
            InvalidArgumentError: the name is not legal.
            ScopeExistsError: it exists, or its recursive deletion is in progress.
        """
        check_internal_name(name, "scope")
        while (scope := await self.find(name)) is None:
            row = ScopeRow(self._entropy.uuid4_bytes(), self._clock.now_ms(), ScopeState.CREATING)
            scope = Scope(name, row, ABSENT)
            if await self._write(scope, row):
                break
        if scope.row.state is not ScopeState.CREATING:
            raise ScopeExistsError(f"scope {name!r} exists")
        await self._store.create_table(scope.table)
        if not await self._write(scope, replace(scope.row, state=ScopeState.ACTIVE)):
            raise ScopeExistsError(f"scope {name!r} exists")

    async def close(self, name: str) -> Scope | None:
        """Take nothing new into the scope any more and return it; None if it does not exist."""
        scope = await self.find(name)
        while scope is not None and scope.row.state in {ScopeState.ACTIVE, ScopeState.CREATING}:
            await self._store.create_table(scope.table)  # a half-created scope is one that has no table
            if await self._write(scope, replace(scope.row, state=ScopeState.CLOSED)):
                return scope
            scope = await self.find(name)
        return scope

    async def delete(self, name: str, uid: bytes | None = None) -> None:
        """Delete an empty scope: the one with ``uid``, if that is given.

        Raises:
            NoSuchScopeError: it does not exist.
            ScopeNotEmptyError: something is in it; nothing changed.
        """
        scope = await self.find(name)
        if scope is None or uid not in {None, scope.row.uid}:
            raise NoSuchScopeError(f"scope {name!r} does not exist")
        if name == SYSTEM_SCOPE:
            raise ScopeNotEmptyError("the scope of the system is never empty")
        before = scope.row.state
        if before in {ScopeState.ACTIVE, ScopeState.CLOSED}:
            # Without this look a full scope would be closed for a while; the table's own check counts.
            if (await self._store.scan(scope.table, b"", 1)).rows:
                raise ScopeNotEmptyError(f"scope {name!r} is not empty")
            if not await self._write(scope, replace(scope.row, state=ScopeState.DELETING)):
                raise MetadataConflictError(f"scope {name!r} was changed by another caller")
        try:
            await self._store.delete_table(scope.table, must_be_empty=True)
        except TableNotEmptyError:
            state = ScopeState.CLOSED if before is ScopeState.CLOSED else ScopeState.ACTIVE
            await self._write(scope, replace(scope.row, state=state))
            raise ScopeNotEmptyError(f"scope {name!r} is not empty") from None
        try:
            await self._store.update(SCOPES, [Write(name.encode("ascii"), None, scope.version)])
        except MetadataConflictError:
            if await self.find(name) is not None:
                raise

    async def names(self, token: bytes, count: int) -> tuple[list[str], bytes]:
        """Return a page of scope names and the token that resumes after them; empty at the end."""
        while True:
            page = await self._store.scan(SCOPES, token, count)
            names = [
                key.decode("ascii")
                for key, row in page.rows
                if decode_scope(row.value).state is not ScopeState.DELETING
            ]
            if names or not page.rows:
                return names, page.token
            token = page.token

    async def all(self) -> list[Scope]:
        """Read every scope, whatever its state."""
        found: list[Scope] = []
        token = b""
        while (page := await self._store.scan(SCOPES, token, 1000)).rows:
            for key, row in page.rows:
                found.append(Scope(key.decode("ascii"), decode_scope(row.value), row.version))
            token = page.token
        return found

    async def _write(self, scope: Scope, row: ScopeRow) -> bool:
        """Write ``row`` over the version in ``scope``; return False if another write was first."""
        key = scope.name.encode("ascii")
        try:
            (scope.version,) = await self._store.update(
                SCOPES, [Write(key, encode_scope(row), scope.version)]
            )
        except MetadataConflictError:
            return False
        except UnknownOutcomeError:
            present = await self._store.get(SCOPES, key)
            if present is None or present.value != encode_scope(row):
                raise
            scope.version = present.version
        scope.row = row
        return True
