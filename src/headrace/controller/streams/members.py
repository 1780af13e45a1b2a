"""Members of a scope other than streams: rows that are read, written under their version and listed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from headrace.controller.store.contract import ABSENT, MetadataStore, Write
from headrace.controller.store.layout import member_key, member_name
from headrace.controller.streams.scopes import Scope, Scopes
from headrace.errors import MetadataConflictError, NoSuchScopeError, NoSuchTableError, UnknownOutcomeError

R = TypeVar("R")


@dataclass(slots=True)
class Member(Generic[R]):
    """One member as it was read; ``version`` is ABSENT for one that is not written yet."""

    scope: Scope
    name: str
    row: R
    version: int


class Members(Generic[R]):
    """All members of one kind. Nothing is cached: these rows are read rarely."""

    def __init__(
        self,
        store: MetadataStore,
        scopes: Scopes,
        kind: bytes,
        encode: Callable[[R], bytes],
        decode: Callable[[bytes], R],
    ) -> None:
        self._store = store
        self._scopes = scopes
        self._kind = kind
        self._encode = encode
        self._decode = decode

    async def find(self, scope_name: str, name: str) -> Member[R] | None:
        """Return the member, or None if it (or its scope) does not exist."""
        scope = await self._scopes.find(scope_name)
        if scope is None or not name.isascii():
            return None
        try:
            found = await self._store.get(scope.table, member_key(self._kind, name))
        except NoSuchTableError:
            return None
        return None if found is None else Member(scope, name, self._decode(found.value), found.version)

    async def write(self, member: Member[R], row: R) -> bool:
        """Write ``row`` over the version in ``member``; return False if another write was first."""
        try:
            (version,) = await self._store.update(member.scope.table, [self.write_of(member, row)])
        except (MetadataConflictError, UnknownOutcomeError):
            present = await self.find(member.scope.name, member.name)
            if present is None or present.row != row or present.version == member.version:
                return False
            version = present.version
        except NoSuchTableError:
            raise NoSuchScopeError(f"scope {member.scope.name!r} does not exist") from None
        member.row, member.version = row, version
        return True

    def write_of(self, member: Member[R], row: R) -> Write:
        """Return the write, for callers that make it together with other writes."""
        return Write(member_key(self._kind, member.name), self._encode(row), member.version)

    async def remove(self, member: Member[R]) -> None:
        """Remove the row, if it is still the one of ``member``; repeating is harmless."""
        write = Write(member_key(self._kind, member.name), None, member.version)
        try:
            await self._store.update(member.scope.table, [write])
        except (MetadataConflictError, NoSuchTableError):
            return

    async def page(self, scope_name: str, token: bytes, count: int) -> tuple[list[Member[R]], bytes]:
        """Return some members of a scope and the token after them; empty at the end.

        Raises:
            NoSuchScopeError: the scope does not exist.
        """
        scope = await self._scopes.find(scope_name)
        if scope is None:
            raise NoSuchScopeError(f"scope {scope_name!r} does not exist")
        return await self.page_in(scope, token, count)

    async def page_in(self, scope: Scope, token: bytes, count: int) -> tuple[list[Member[R]], bytes]:
        """Like :meth:`page`, of this very scope: not of a later one of its name."""
        while True:
            try:
                page = await self._store.scan(scope.table, token, count)
            except NoSuchTableError:
                raise NoSuchScopeError(f"scope {scope.name!r} does not exist") from None
            members = [
                Member(scope, member_name(key), self._decode(row.value), row.version)
                for key, row in page.rows
                if key[:1] == self._kind
            ]
            if members or not page.rows:
                return members, page.token
            token = page.token


NEW = ABSENT
"""Version of a member that is to be created."""
