"""Requests about table segments. Each takes a request and returns its reply.

Questions change nothing, and their answers may be large. So they also take a bound for the keys or entries of
the answer, and fail with AnswerTooLargeError, which carries their actual size.
"""

from __future__ import annotations

from headrace.errors import InvalidArgumentError
from headrace.limits import LIST_COUNT_MAX
from headrace.model.tables import NOT_EXISTS, TableEntry
from headrace.segmentstore.ingress.contract import StoreFacade
from headrace.segmentstore.ingress.segment_session import Handler
from headrace.segmentstore.tables.update_batch import OnUpdated
from headrace.wire import commands as c
from headrace.wire.commands.kinds import Reply, Request
from headrace.wire.table_replies import encode_table_read


class TableSession:
    """Table requests of one connection. Errors of the store pass through."""

    __slots__ = ("_store", "handlers", "questions")

    def __init__(self, store: StoreFacade) -> None:
        self._store = store
        self.handlers: dict[type[Request], Handler] = {
            c.CreateTableSegment: self.create,
            c.DeleteTableSegment: self.delete,
            c.GetTableSegmentInfo: self.info,
            c.UpdateTableEntries: self.update,
            c.RemoveTableKeys: self.remove,
        }
        self.questions: dict[type[Request], Handler] = {
            c.ReadTable: self.read,
            c.ReadTableKeys: self.read_keys,
            c.ReadTableEntries: self.read_entries,
            c.ReadTableEntriesDelta: self.read_delta,
        }

    async def create(self, request: c.CreateTableSegment) -> Reply:
        await self._store.create_table(
            request.segment,
            key_length=request.key_length,
            rollover_bytes=max(0, request.rollover_size_bytes),
        )
        return c.SegmentCreated(request.request_id, request.segment)

    async def delete(self, request: c.DeleteTableSegment) -> Reply:
        await self._store.delete_table(request.segment, must_be_empty=request.must_be_empty)
        return c.SegmentDeleted(request.request_id, request.segment)

    async def info(self, request: c.GetTableSegmentInfo) -> Reply:
        info = await self._store.table_info(request.segment)
        return c.TableSegmentInfo(
            request.request_id,
            request.segment,
            info.start_offset,
            info.length,
            info.entry_count,
            info.key_length,
        )

    async def update(self, request: c.UpdateTableEntries) -> Reply:
        _check_condition(request.table_segment_offset)
        versions = await self._store.table_update(
            request.segment, request.table_entries, request.table_segment_offset
        )
        return c.TableEntriesUpdated(request.request_id, versions)

    def begin_update(self, request: c.UpdateTableEntries, on_updated: OnUpdated) -> bool:
        """Begin an update without a task; False if :meth:`update` has to do it."""
        _check_condition(request.table_segment_offset)
        return self._store.begin_table_update(
            request.segment, request.table_entries, request.table_segment_offset, on_updated
        )

    async def remove(self, request: c.RemoveTableKeys) -> Reply:
        _check_condition(request.table_segment_offset)
        await self._store.table_remove(request.segment, request.keys, request.table_segment_offset)
        return c.TableKeysRemoved(request.request_id, request.segment)

    async def read(self, request: c.ReadTable, bytes_max: int) -> Reply:
        """Answer one entry per key: peers recognise a missing one by its version or its empty value."""
        keys = [key.key for key in request.keys]
        found = await self._store.table_get(request.segment, keys, bytes_max)
        entries = [
            TableEntry(key, b"", NOT_EXISTS) if entry is None else entry
            for key, entry in zip(keys, found, strict=True)
        ]
        return c.TableRead(request.request_id, request.segment, entries)

    def read_nowait(self, request: c.ReadTable, bytes_max: int) -> bytes | None:
        """Return the frame that answers what is in memory; None if :meth:`read` has to answer."""
        keys = [key.key for key in request.keys]
        found = self._store.table_get_nowait(request.segment, keys, bytes_max)
        return None if found is None else encode_table_read(request.request_id, request.segment, keys, found)

    async def read_keys(self, request: c.ReadTableKeys, bytes_max: int) -> Reply:
        keys, token = await self._store.table_keys(
            request.segment,
            request.continuation_token,
            min(request.suggested_key_count, LIST_COUNT_MAX),
            request.from_key,
            request.to_key,
            bytes_max,
        )
        return c.TableKeysRead(request.request_id, request.segment, keys, token)

    async def read_entries(self, request: c.ReadTableEntries, bytes_max: int) -> Reply:
        entries, token = await self._store.table_entries(
            request.segment,
            request.continuation_token,
            min(request.suggested_entry_count, LIST_COUNT_MAX),
            request.from_key,
            request.to_key,
            bytes_max,
        )
        return c.TableEntriesRead(request.request_id, request.segment, entries, token)

    async def read_delta(self, request: c.ReadTableEntriesDelta, bytes_max: int) -> Reply:
        delta = await self._store.table_delta(
            request.segment,
            request.from_position,
            min(request.suggested_entry_count, LIST_COUNT_MAX),
            bytes_max,
        )
        return c.TableEntriesDeltaRead(
            request.request_id,
            request.segment,
            delta.entries,
            delta.should_clear,
            delta.reached_end,
            delta.last_position,
        )


def _check_condition(table_segment_offset: int) -> None:
    """Refuse an impossible condition, which the store would treat as none."""
    if table_segment_offset < -1:
        raise InvalidArgumentError(f"{table_segment_offset} is no length of a table")
