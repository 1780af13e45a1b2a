"""Iterates over tables: pages of keys and entries, and changes."""

from __future__ import annotations

from typing import Final

from headrace.errors import AnswerTooLargeError, InvalidArgumentError, SegmentTruncatedError
from headrace.limits import TABLE_BATCH_BYTES_MAX, TABLE_ITEM_BYTES
from headrace.model.tables import TableDelta, TableEntry, TableKey
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.segmentstore.tables.delta_plan import DeltaWalk
from headrace.segmentstore.tables.entry_format import ENTRY_HEADER_BYTES, NoEntryError
from headrace.segmentstore.tables.locations import is_copy, location_bytes, location_offset
from headrace.segmentstore.tables.log import scan_log
from headrace.segmentstore.tables.open_table import OpenTable
from headrace.segmentstore.tables.reads import TableReads
from headrace.segmentstore.tables.request_limits import check_count, key_length_of
from headrace.segmentstore.tables.tree_keys import HASH_BYTES, TreeKeys

#: First byte of continuation tokens. The last tree key follows. Version 1 had the last key, in another order.
_TOKEN_VERSION: Final = b"\x02"

_HEADS_AT_ONCE: Final = 256
"""Keys of a hash table that are read from the log together: 2 MiB at most."""

Located = list[tuple[bytes, int]]
"""Tree keys and locations."""


class TablePages(TableReads):
    """The reading half of a container's tables. Answers what is durable."""

    async def keys(
        self,
        segment: str,
        token: bytes,
        count: int,
        from_key: bytes = b"",
        to_key: bytes = b"",
        bytes_max: int = TABLE_BATCH_BYTES_MAX,
    ) -> tuple[list[TableKey], bytes]:
        """Return up to ``count`` keys, and the token to go on with.

        Hash tables are in the order of their hashes and go on with ``token``; empty is the start, and is
        returned with an empty page. Tables with keys of fixed length are in the order of their keys, and take
        the inclusive bounds ``from_key`` and ``to_key`` instead; empty is no bound. A key that exists during
        the whole iteration comes exactly once.

        Raises:
            AnswerTooLargeError: the first item alone exceeds ``bytes_max``.
            InvalidArgumentError: the token is none of this version; begin anew.
        """
        first, last = await self._find_bounds(segment, token, count, from_key, to_key)
        found: list[TableKey] = []
        free_bytes = min(self._config.page_bytes_max, bytes_max)
        next_token = b""
        while len(found) < count and free_bytes >= 0:
            at_once = min(count - len(found), free_bytes // TABLE_ITEM_BYTES + 1, _HEADS_AT_ONCE)
            table, located = await self._find_range(segment, first, last, at_once)
            if not located:
                break
            for (tree_key, _), item in zip(located, await self._read_keys(table, located), strict=True):
                if item is not None:
                    size = TABLE_ITEM_BYTES + len(item.key)
                    if size > free_bytes and found:
                        return found, next_token
                    if size > bytes_max:
                        raise AnswerTooLargeError(size, bytes_max)
                    found.append(item)
                    free_bytes -= size
                next_token = _token_of(table, tree_key)
                first = table.tree_keys.behind(tree_key)
        return found, next_token if found else b""

    async def entries(
        self,
        segment: str,
        token: bytes,
        count: int,
        from_key: bytes = b"",
        to_key: bytes = b"",
        bytes_max: int = TABLE_BATCH_BYTES_MAX,
    ) -> tuple[list[TableEntry], bytes]:
        """Do as :meth:`keys` does, with values. Sizes count as :meth:`get` counts them."""
        first, last = await self._find_bounds(segment, token, count, from_key, to_key)
        while True:
            free_bytes = min(self._config.page_bytes_max, bytes_max)
            table, located = await self._find_range(
                segment, first, last, min(count, free_bytes // TABLE_ITEM_BYTES + 1)
            )
            page: Located = []
            for tree_key, location in located:
                size = TABLE_ITEM_BYTES + location_bytes(location) - ENTRY_HEADER_BYTES
                if size > free_bytes and page:
                    break
                if size > bytes_max:
                    raise AnswerTooLargeError(size, bytes_max)
                page.append((tree_key, location))
                free_bytes -= size
            if not page:
                return [], b""
            entries = await self._read_located(table, [key for key, _ in page], [each for _, each in page])
            found = [entry for entry in entries if entry is not None]
            if found:
                return found, _token_of(table, page[-1][0])
            # The whole page was removed while it was read; an empty answer would end the iteration.
            first = table.tree_keys.behind(page[-1][0])

    async def _find_bounds(
        self, name: str, token: bytes, count: int, from_key: bytes, to_key: bytes
    ) -> tuple[bytes | None, bytes | None]:
        """Return the lowest and the highest tree key of an iteration; one is None if there is none."""
        check_count(count)
        key_length = key_length_of(await self._tables.get_segment(name))
        tree_keys = TreeKeys(key_length, 0)
        if key_length:
            if token:
                raise InvalidArgumentError(
                    "tables with keys of fixed length are iterated by range, not by token"
                )
            return tree_keys.lowest(from_key), tree_keys.highest(to_key) if to_key else tree_keys.last
        if from_key or to_key:
            raise InvalidArgumentError("hash tables are iterated by token, not by range")
        if not token:
            return tree_keys.first, tree_keys.last
        if not token.startswith(_TOKEN_VERSION) or len(token) != 1 + HASH_BYTES:
            raise InvalidArgumentError(
                "the continuation token is none of this version of the server: begin the iteration anew"
            )
        return tree_keys.behind(token[1:]), tree_keys.last

    async def _find_range(
        self, name: str, first: bytes | None, last: bytes | None, count: int
    ) -> tuple[OpenTable, Located]:
        while True:
            table = await self._tables.get(name)
            if first is None or last is None or first > last:
                return table, []
            located = await table.find_range(first, last, count)
            if located is not None:
                return table, located

    async def _read_keys(self, table: OpenTable, located: Located) -> list[TableKey | None]:
        """Return keys with their versions; None for those that were removed meanwhile."""
        found: list[TableKey | None] = [None] * len(located)
        places: list[int] = []
        for place, (tree_key, location) in enumerate(located):
            if table.key_length and not is_copy(location):
                found[place] = TableKey(tree_key, location_offset(location))
            else:
                places.append(place)
        if places:
            some = [located[place] for place in places]
            entries = await self._read_located(
                table, [key for key, _ in some], [each for _, each in some], with_values=False
            )
            for place, entry in zip(places, entries, strict=True):
                found[place] = None if entry is None else TableKey(entry.key, entry.version)
        return found

    # ---- changes

    async def delta(
        self, segment: str, position: int, count: int, bytes_max: int = TABLE_BATCH_BYTES_MAX
    ) -> TableDelta:
        """Return what changed in a table since ``position`` of its log, up to about ``count`` keys.

        An answer without entries means that there are none up to the end; its ``last_position`` is the end.

        Raises:
            InvalidArgumentError: ``position`` is beyond the log, or was not handed out by it.
            AnswerTooLargeError: the first entry alone exceeds ``bytes_max``.
        """
        state = await self._tables.get_segment(segment)
        check_count(count)
        if not 0 <= position <= state.durable_length:
            raise InvalidArgumentError(
                f"position {position} is not in the log of table {segment!r}, [0, {state.durable_length}]"
            )
        while True:
            start = max(position, state.start_offset)
            try:
                delta = await self._walk(state, start, count, bytes_max)
            except SegmentTruncatedError:
                if state.start_offset <= start:
                    raise
                continue  # compaction went on meanwhile
            except NoEntryError as error:
                if start == position != state.start_offset:
                    # Any number may come from a client; damage to the log is found when it is replayed.
                    raise InvalidArgumentError(
                        f"position {position} is not one of table {segment!r}"
                    ) from error
                raise
            delta.should_clear = position < start
            return delta

    async def _walk(self, segment: SegmentState, start: int, count: int, bytes_max: int) -> TableDelta:
        page_bytes_max = min(self._config.page_bytes_max, bytes_max)
        walk = DeltaWalk(start, segment.durable_length, count, page_bytes_max, bytes_max)
        async for entries, data in scan_log(self._access, segment, start, walk.end):
            if walk.read(entries, data):
                break
        return walk.delta()


def _token_of(table: OpenTable, tree_key: bytes) -> bytes:
    return b"" if table.key_length else _TOKEN_VERSION + tree_key
