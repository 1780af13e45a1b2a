"""Table segments in other processes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from headrace.controller.segments.remote.store_calls import StoreCalls
from headrace.errors import (
    AnswerTooLargeError,
    InvalidArgumentError,
    OffsetMismatchError,
    ProtocolError,
    SegmentTruncatedError,
)
from headrace.limits import LIST_COUNT_MAX, TABLE_BATCH_BYTES_MAX, TABLE_ITEM_BYTES
from headrace.model.tables import NOT_EXISTS, TableDelta, TableEntry, TableInfo, TableKey
from headrace.wire import commands as c

R = TypeVar("R")

_HASH_KEYS: Final = 0


class RemoteTables:
    """The verbs of tables. Used on one loop."""

    def __init__(self, calls: StoreCalls) -> None:
        self._calls = calls

    async def create_table(self, segment: str, /, *, key_length: int = 0, rollover_bytes: int = 0) -> None:
        def make(token: str) -> c.CreateTableSegment:
            return c.CreateTableSegment(
                0, segment, token, key_length != _HASH_KEYS, key_length, rollover_bytes
            )

        await self._calls.ask(segment, make, c.SegmentCreated, repeats=False)

    async def delete_table(self, segment: str, /, *, must_be_empty: bool) -> None:
        def make(token: str) -> c.DeleteTableSegment:
            return c.DeleteTableSegment(0, segment, must_be_empty, token)

        await self._calls.ask(segment, make, c.SegmentDeleted, repeats=False)

    async def table_info(self, segment: str, /) -> TableInfo:
        reply = await self._calls.ask(
            segment, lambda token: c.GetTableSegmentInfo(0, segment, token), c.TableSegmentInfo
        )
        return TableInfo(reply.start_offset, reply.length, reply.entry_count, reply.key_length)

    async def table_update(
        self, segment: str, /, entries: Sequence[TableEntry], expected_length: int = -1
    ) -> list[int]:
        def make(token: str) -> c.UpdateTableEntries:
            return c.UpdateTableEntries(0, segment, token, list(entries), expected_length)

        reply = await self._change(segment, make, c.TableEntriesUpdated, expected_length)
        return reply.updated_versions

    async def table_remove(
        self, segment: str, /, keys: Sequence[TableKey], expected_length: int = -1
    ) -> None:
        def make(token: str) -> c.RemoveTableKeys:
            return c.RemoveTableKeys(0, segment, token, list(keys), expected_length)

        await self._change(segment, make, c.TableKeysRemoved, expected_length)

    async def _change(
        self, segment: str, make: Callable[[str], c.Command], reply: type[R], expected_length: int
    ) -> R:
        try:
            return await self._calls.ask(segment, make, reply, repeats=False)
        except SegmentTruncatedError as error:  # so the protocol says that the table has another length
            raise OffsetMismatchError(segment, expected_length, error.start_offset) from None

    async def table_get(
        self, segment: str, /, keys: Sequence[bytes], bytes_max: int = TABLE_BATCH_BYTES_MAX
    ) -> list[TableEntry | None]:
        wanted = [TableKey(key) for key in keys]
        try:
            reply = await self._calls.ask(
                segment, lambda token: c.ReadTable(0, segment, token, wanted), c.TableRead
            )
        except InvalidArgumentError as error:
            if len(wanted) < 2:
                raise
            # Perhaps because the answer exceeds a frame: then it would not with fewer keys.
            raise AnswerTooLargeError(bytes_max + 1, bytes_max, str(error)) from None
        if len(reply.entries) != len(wanted):
            raise ProtocolError(f"segment {segment!r}: {len(reply.entries)} entries for {len(wanted)} keys")
        found = [None if entry.version == NOT_EXISTS else entry for entry in reply.entries]
        _check_size(_size_of(*(entry for entry in found if entry)), bytes_max)
        return found

    async def table_keys(
        self,
        segment: str,
        /,
        token: bytes,
        count: int,
        from_key: bytes = b"",
        to_key: bytes = b"",
        bytes_max: int = TABLE_BATCH_BYTES_MAX,
    ) -> tuple[list[TableKey], bytes]:
        async def page(count: int) -> tuple[list[TableKey], bytes]:
            reply = await self._calls.ask(
                segment,
                lambda access: c.ReadTableKeys(0, segment, access, count, token, b"", from_key, to_key),
                c.TableKeysRead,
            )
            return reply.keys, reply.continuation_token

        return await _fitting(page, count, bytes_max)

    async def table_entries(
        self,
        segment: str,
        /,
        token: bytes,
        count: int,
        from_key: bytes = b"",
        to_key: bytes = b"",
        bytes_max: int = TABLE_BATCH_BYTES_MAX,
    ) -> tuple[list[TableEntry], bytes]:
        async def page(count: int) -> tuple[list[TableEntry], bytes]:
            reply = await self._calls.ask(
                segment,
                lambda access: c.ReadTableEntries(0, segment, access, count, token, b"", from_key, to_key),
                c.TableEntriesRead,
            )
            return reply.entries, reply.continuation_token

        return await _fitting(page, count, bytes_max)

    async def table_delta(
        self, segment: str, /, position: int, count: int, bytes_max: int = TABLE_BATCH_BYTES_MAX
    ) -> TableDelta:
        count = min(count, LIST_COUNT_MAX)
        while True:

            def make(token: str, count: int = count) -> c.ReadTableEntriesDelta:
                return c.ReadTableEntriesDelta(0, segment, token, position, count)

            reply = await self._calls.ask(segment, make, c.TableEntriesDeltaRead)
            size = _size_of(*reply.entries)
            if size <= bytes_max:
                return TableDelta(reply.entries, reply.should_clear, reply.reached_end, reply.last_position)
            if count == 1:
                raise AnswerTooLargeError(size, bytes_max)
            count = max(1, min(count, len(reply.entries)) // 2)


async def _fitting(
    page: Callable[[int], Awaitable[tuple[list[R], bytes]]], count: int, bytes_max: int
) -> tuple[list[R], bytes]:
    """Return a page that takes at most ``bytes_max`` bytes, of fewer items if need be.

    Where a page of a hash table may be cut only its store knows, and the protocol has a bound in count.
    """
    count = min(count, LIST_COUNT_MAX)
    while True:
        items, token = await page(count)
        size = _size_of(*items)
        if size <= bytes_max:
            return items, token
        if count <= 1:
            raise AnswerTooLargeError(size, bytes_max)
        count = max(1, min(count, len(items)) // 2)


def _size_of(*items: object) -> int:
    size = 0
    for item in items:
        assert isinstance(item, TableKey | TableEntry)
        value = item.value if isinstance(item, TableEntry) else b""
        size += TABLE_ITEM_BYTES + len(item.key) + len(value)
    return size


def _check_size(size: int, bytes_max: int) -> None:
    if size > bytes_max:
        raise AnswerTooLargeError(size, bytes_max)
