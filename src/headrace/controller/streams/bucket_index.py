"""Which streams of a bucket there is background work for: an index, so that no service reads every stream.

A row is written after the stream's own row says that there will be such work (that of a stream in creation,
an update in progress), and before anything relies on it. So a row for which the stream's row says nothing is
stale, and is removed under the version it was read with *before* the stream was: a stream that gets such work
meanwhile writes it anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.controller.store.contract import MetadataStore, Row, Write
from headrace.controller.store.layout import bucket_key, bucket_member, bucket_table
from headrace.controller.store.rows.bucket_row import BucketRow, decode_bucket_member, encode_bucket_member
from headrace.errors import MetadataConflictError, UnknownOutcomeError


@dataclass(frozen=True, slots=True)
class BucketMember:
    """A row of the index as it was read."""

    kind: bytes
    scope: str
    stream: str
    since_ms: int
    version: int


class BucketIndex:
    """One table per bucket; rows by kind of work and stream. Used on the controller's loop."""

    def __init__(self, store: MetadataStore, bucket_of: Callable[[str, str], int]) -> None:
        """``bucket_of``: the bucket of a stream, by its scope and its name."""
        self._store = store
        self._bucket_of = bucket_of

    async def add(self, kind: bytes, scope: str, stream: str, now_ms: int) -> None:
        """There is work from now on. A row that is there is written anew, so that it is not removed."""
        write = Write(bucket_key(kind, scope, stream), encode_bucket_member(BucketRow(now_ms)))
        await self._store.update(self._table(scope, stream), [write])

    async def ensure(self, kind: bytes, scope: str, stream: str, now_ms: int) -> None:
        """There is work: from now on, unless a row says so already."""
        key = bucket_key(kind, scope, stream)
        if await self._store.get(self._table(scope, stream), key) is None:
            await self.add(kind, scope, stream, now_ms)

    async def page(self, bucket: int, token: bytes, count: int) -> tuple[list[BucketMember], bytes]:
        """Return some members of a bucket, of every kind, and the token after them; none at the end."""
        page = await self._store.scan(bucket_table(bucket), token, count)
        return [_member(key, row) for key, row in page.rows], page.token

    async def remove(self, member: BucketMember) -> None:
        """Remove a row, unless it was written anew since ``member`` was read."""
        key = bucket_key(member.kind, member.scope, member.stream)
        try:
            await self._store.update(
                self._table(member.scope, member.stream), [Write(key, None, member.version)]
            )
        except (MetadataConflictError, UnknownOutcomeError):
            return

    def _table(self, scope: str, stream: str) -> str:
        return bucket_table(self._bucket_of(scope, stream))


def _member(key: bytes, row: Row) -> BucketMember:
    scope, stream = bucket_member(key)
    return BucketMember(key[:1], scope, stream, decode_bucket_member(row.value).since_ms, row.version)
