"""The conversation about one table: requests to its partitions, within bounds in count and bytes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from headrace.client.control.tokens import Access
from headrace.client.owner_calls import OwnerCalls
from headrace.client.segment_address import SegmentAddress
from headrace.client.tables.changes import Batch
from headrace.errors import (
    LostReplyError,
    NoSuchKeyValueTableError,
    NoSuchSegmentError,
    ProtocolError,
    TableKeyMissingError,
    TableKeyVersionError,
)
from headrace.limits import MIB
from headrace.model.names import TABLE_SUFFIX
from headrace.model.tables import NOT_EXISTS, TableEntry, TableKey
from headrace.wire.commands import (
    GetTableSegmentInfo,
    ReadTable,
    ReadTableEntries,
    ReadTableKeys,
    RemoveTableKeys,
    TableEntriesRead,
    TableEntriesUpdated,
    TableKeysRead,
    TableKeysRemoved,
    TableRead,
    TableSegmentInfo,
    UpdateTableEntries,
)
from headrace.wire.commands.kinds import Command

CHANGES_IN_FLIGHT_MAX: Final = 256
CHANGE_BYTES_IN_FLIGHT_MAX: Final = 32 * MIB

T = TypeVar("T", bound=Command)


class TableCalls:
    """Every request about a table. Changes beyond the window wait for others. Used on one loop."""

    def __init__(self, calls: OwnerCalls, scope: str, table: str) -> None:
        self._calls = calls
        self._scope = scope
        self._table = table
        self._window = _Window(CHANGES_IN_FLIGHT_MAX, CHANGE_BYTES_IN_FLIGHT_MAX)

    async def update(self, segment_id: int, batch: Batch) -> list[int]:
        """Put the entries of a batch; return their new versions.

        Raises:
            TableKeyMissingError, TableKeyVersionError: a condition does not hold; nothing changed.
            LostReplyError: it is unknown whether it happened.
            NoSuchKeyValueTableError: the table was deleted.
        """
        name = self._address(segment_id).name
        reply = await self._change(
            segment_id,
            batch,
            lambda token: UpdateTableEntries(0, name, token, batch.entries),
            TableEntriesUpdated,
        )
        if len(reply.updated_versions) != len(batch.entries):
            raise ProtocolError(
                f"{name}: {len(reply.updated_versions)} versions for {len(batch.entries)} puts"
            )
        return reply.updated_versions

    async def remove(self, segment_id: int, batch: Batch) -> None:
        """Remove the keys of a batch. Raises as :meth:`update`."""
        name = self._address(segment_id).name
        await self._change(
            segment_id, batch, lambda token: RemoveTableKeys(0, name, token, batch.keys), TableKeysRemoved
        )

    async def read(self, segment_id: int, keys: Sequence[bytes]) -> list[TableEntry]:
        """Return the entry of each key, with the version NOT_EXISTS for one that is not there."""
        name = self._address(segment_id).name
        wanted = [TableKey(key) for key in keys]
        reply = await self._ask(segment_id, lambda token: ReadTable(0, name, token, wanted), TableRead)
        if len(reply.entries) != len(keys):
            raise ProtocolError(f"{name}: {len(reply.entries)} entries for {len(keys)} keys")
        return reply.entries

    async def read_keys(self, segment_id: int, first: bytes, last: bytes, count: int) -> list[TableKey]:
        """Return about ``count`` keys from ``first`` to ``last``, in order; none if there is none."""
        name = self._address(segment_id).name
        reply = await self._ask(
            segment_id,
            lambda token: ReadTableKeys(0, name, token, count, from_key=first, to_key=last),
            TableKeysRead,
        )
        return reply.keys

    async def read_entries(self, segment_id: int, first: bytes, last: bytes, count: int) -> list[TableEntry]:
        """Return entries as :meth:`read_keys` returns keys."""
        name = self._address(segment_id).name
        reply = await self._ask(
            segment_id,
            lambda token: ReadTableEntries(0, name, token, count, from_key=first, to_key=last),
            TableEntriesRead,
        )
        return reply.entries

    async def count_entries(self, segment_id: int) -> int:
        """Return how many keys a partition has."""
        name = self._address(segment_id).name
        reply = await self._ask(
            segment_id, lambda token: GetTableSegmentInfo(0, name, token), TableSegmentInfo
        )
        return reply.entry_count

    def _address(self, segment_id: int) -> SegmentAddress:
        return SegmentAddress(self._scope, self._table + TABLE_SUFFIX, segment_id)

    async def _change(
        self, segment_id: int, batch: Batch, make_request: Callable[[str], Command], reply: type[T]
    ) -> T:
        with self._calls.change(f"{self._scope}/{self._table}"):
            async with self._window.use(batch.size_bytes):
                try:
                    return await self._ask(
                        segment_id, make_request, reply, is_idempotent=not batch.is_conditional
                    )
                except (LostReplyError, TableKeyMissingError, TableKeyVersionError) as error:
                    raise self._explain(error, batch) from error

    def _explain(
        self, error: LostReplyError | TableKeyMissingError | TableKeyVersionError, batch: Batch
    ) -> Exception:
        """Return the error with the names that the caller knows."""
        what = f"key {_shown(batch.first_key)}" if batch.count == 1 else f"a key of {batch.count}"
        where = f"key-value table {self._scope}/{self._table}: {what}"
        if isinstance(error, LostReplyError):
            return LostReplyError(f"{where}: {error}")
        if isinstance(error, TableKeyMissingError):
            what = "does not exist, as the condition requires"
        elif batch.count == 1 and batch.entries and batch.entries[0].version == NOT_EXISTS:
            what = "exists already"
        else:
            what = "has another version than the condition requires"
        return type(error)(error.segment, f"{where} {what}; nothing changed, read it and decide again")

    async def _ask(
        self,
        segment_id: int,
        make_request: Callable[[str], Command],
        reply: type[T],
        *,
        is_idempotent: bool = True,
    ) -> T:
        try:
            answer = await self._calls.call(
                self._address(segment_id),
                Access.READ_WRITE,
                make_request,
                (reply,),
                is_idempotent=is_idempotent,
            )
        except NoSuchSegmentError as error:
            raise NoSuchKeyValueTableError(
                f"key-value table {self._scope}/{self._table} was deleted; "
                "if it was created anew, open it again"
            ) from error
        assert isinstance(answer, reply)
        return answer


class _Window:
    """Bounds what is in flight in count and bytes, first come, first served. What is larger goes alone."""

    def __init__(self, count_max: int, bytes_max: int) -> None:
        self._count_max = count_max
        self._bytes_max = bytes_max
        self._count = 0
        self._bytes = 0
        self._queue: deque[tuple[asyncio.Future[None], int]] = deque()

    @asynccontextmanager
    async def use(self, size_bytes: int) -> AsyncIterator[None]:
        if self._queue or not self._has_space(size_bytes):
            await self._wait(size_bytes)
        else:
            self._consume(size_bytes)
        try:
            yield
        finally:
            self._release(size_bytes)

    def _has_space(self, size_bytes: int) -> bool:
        if self._count == 0:
            return True
        return self._count < self._count_max and self._bytes + size_bytes <= self._bytes_max

    def _consume(self, size_bytes: int) -> None:
        self._count += 1
        self._bytes += size_bytes

    def _release(self, size_bytes: int) -> None:
        self._count -= 1
        self._bytes -= size_bytes
        self._admit()

    def _admit(self) -> None:
        while self._queue and self._has_space(self._queue[0][1]):
            admitted, size_bytes = self._queue.popleft()
            if not admitted.done():
                self._consume(size_bytes)
                admitted.set_result(None)

    async def _wait(self, size_bytes: int) -> None:
        admitted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append((admitted, size_bytes))
        try:
            await admitted
        except asyncio.CancelledError:
            if admitted.done() and not admitted.cancelled():
                self._release(size_bytes)
            self._admit()
            raise


def _shown(key: bytes) -> str:
    text = key[:64].hex()
    return text if len(key) <= 64 else f"{text}..."
