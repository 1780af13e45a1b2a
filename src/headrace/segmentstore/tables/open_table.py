"""One table in use: its state and its appends in flight."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from headrace.errors import DataCorruptionError, OffsetMismatchError, SegmentTruncatedError
from headrace.runtime.loop_budget import LoopBudget
from headrace.segmentstore.contract import ContainerSegments
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.segmentstore.tables.entry_format import ENTRY_HEADER_BYTES, decode_version
from headrace.segmentstore.tables.index_access import TableIndex
from headrace.segmentstore.tables.locations import ABSENT, REMOVED, UNKNOWN, is_copy, location_offset
from headrace.segmentstore.tables.log import read_exactly
from headrace.segmentstore.tables.state import Batch, Learned, TableState
from headrace.segmentstore.tables.tree_keys import TreeKeys
from headrace.segmentstore.tables.unindexed import UnindexedEntries
from headrace.segmentstore.tables.update_batch import UpdateBatch

_RANGE_MAX: Final = 4096
"""Keys of a range that are looked at together."""


_COUNTED_AT_ONCE: Final = 1024
"""Keys looked up before the coroutine yields to the loop: some milliseconds, if each is in another page."""


class OpenTable:
    """A table whose unindexed entries are in memory. After any await its caller asks whether it is still the
    table to use.
    """

    def __init__(
        self,
        access: ContainerSegments,
        segment: SegmentState,
        index: TableIndex,
        unindexed: UnindexedEntries,
        tail: int,
        tree_keys: TreeKeys,
    ) -> None:
        self.segment = segment
        self.index = index
        self.state = TableState(segment.name, index, unindexed, tail, self._read_version_nowait)
        self.tree_keys = tree_keys
        self.key_length = tree_keys.key_length
        self.retired = False
        """Set once it must not be used for new requests; its appends in flight still complete."""
        self.compacting = False
        self.indexing = False
        self.index_retry_s = 0.0
        """Time of the loop before which a failed index round is not tried again."""
        self.open_batch: UpdateBatch | None = None
        """Accepted at the tail, and not handed to the log before the next iteration of the loop."""
        self._access = access
        self._appending = 0
        self._given_up = 0
        """Appends that were accepted here and never by the log."""
        self._ended: asyncio.Future[None] | None = None
        """Done when the next append in flight has ended, well or not."""

    @property
    def is_idle(self) -> bool:
        if not self.is_drained:
            return False
        if self.state.in_flight_count and not self.retired:
            self.settle()  # the caller of the append was cancelled: nothing else would
        # The state of a retired table may be void: what it takes to be in flight may never come.
        return self.retired or not self.state.in_flight_count

    @property
    def is_drained(self) -> bool:
        """Whether no append is in flight, nor background work."""
        return not (self._appending or self.compacting or self.indexing or self.open_batch is not None)

    @property
    def log_bytes(self) -> int:
        return self.state.durable_end - self.segment.accepted_start_offset

    def settle(self) -> None:
        """Move into the index what has become durable."""
        state = self.state
        durable_length = self.segment.durable_length
        if durable_length > state.durable_end and state.in_flight_count:
            state.settle(durable_length)

    async def wait_durable(self, end: int) -> bool:
        """Wait until the log is durable up to ``end``, which the state has reached. Fails as the container
        fails.

        Returns:
            Whether it is. If not, the state has changed in another way; look at it again.
        """
        segment, given_up = self.segment, self._given_up
        while end > segment.accepted_length:
            # An append in flight may still be refused: then these bytes would never come.
            await self.wait_ended()
            self.settle()
            if self.retired or self._given_up != given_up:
                return False  # even if the log is that long by now: other bytes may be there
        if end > segment.durable_length:
            # A reader waiting at the tail is woken by exactly that.
            (await self._access.read(segment, end - 1, 1, wait=True)).release()
        self.settle()
        return segment.durable_length >= end

    # ---- appending

    async def append(self, batch: Batch, data: bytes) -> bool:
        """Append ``batch`` at the accepted tail, return when it is durable and in the index.

        The offset is reserved before the first await, although the container may queue the append.

        Returns:
            False if nothing was appended because an append in front of it was refused or given up: the
            state it was judged by never came to be. The table is retired then; judge again with its
            successor.
        """
        assert self.open_batch is None, "what is in front of it would come behind it"
        self.state.accept(batch)
        return await self._append_accepted(batch, data)

    async def append_open_batch(self) -> bool:
        """Append the open batch, as :meth:`append` does; what comes from now on is not added to it."""
        batch, self.open_batch = self.open_batch, None
        assert batch is not None
        return await self._append_accepted(batch, b"".join(batch.pieces))

    async def _append_accepted(self, batch: Batch, data: bytes) -> bool:
        state, segment = self.state, self.segment
        self._appending += 1
        try:
            offset = await self._access.append(segment, data, (), batch.offset)
            assert offset == batch.offset
            self.settle()
        except OffsetMismatchError:
            self.retired = True
            return False
        except BaseException:
            # What was accepted completes without a caller; what was not must leave the state.
            if segment.accepted_length < batch.end:
                self._given_up += 1
                if not state.retract(batch):
                    self.retired = True
            raise
        finally:
            self._appending -= 1
            self.notify_ended()
        return True

    def notify_ended(self) -> None:
        """An append or a piece of background work has ended."""
        if self._ended is not None:
            ended, self._ended = self._ended, None
            if not ended.done():
                ended.set_result(None)

    async def wait_batch_sent(self) -> None:
        """Wait until no batch is open, which takes an iteration of the loop: an append would overtake it."""
        while self.open_batch is not None:  # noqa: ASYNC110 - an event would cost each batch one
            await asyncio.sleep(0)

    async def wait_drained(self) -> None:
        """Wait until no append is in flight, nor background work."""
        while not self.is_drained:
            await self.wait_ended()

    async def wait_ended(self) -> None:
        """Wait until the next append or piece of background work has ended."""
        if self._ended is None:
            self._ended = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._ended)

    # ---- reading

    def _read_version_nowait(self, offset: int) -> int | None:
        if offset + ENTRY_HEADER_BYTES > self.segment.durable_length or offset < self.segment.start_offset:
            return None
        result = self._access.read_nowait(self.segment, offset, ENTRY_HEADER_BYTES)
        data = b"" if result is None else result.to_bytes()
        return decode_version(data, offset, self.segment.name) if len(data) == ENTRY_HEADER_BYTES else None

    async def learn(
        self, keys: Sequence[bytes], find: Callable[[bytes, Learned | None], int], learned: Learned
    ) -> None:
        """Read one step of what ``find`` and the versions of these keys take. Then the caller looks again.

        Raises:
            DataCorruptionError: the index or the log is damaged.
            StorageReadError: storage did not answer; retry.
        """
        locations = [find(key, learned) for key in keys]
        unknown = [key for key, location in zip(keys, locations, strict=True) if location == UNKNOWN]
        if unknown:
            await self._look_up(unknown, learned)
            return
        # Versions of copies in flight are in memory: one that the log refuses would be waited for in vain.
        offsets = [
            offset
            for location in locations
            if location != REMOVED and is_copy(location)
            if (offset := location_offset(location)) < self.state.durable_end
            and offset not in learned.versions
        ]
        for offset in offsets:
            self.check_in_log(offset)
        for offset in offsets:
            try:
                data = await read_exactly(self._access, self.segment, offset, ENTRY_HEADER_BYTES)
            except SegmentTruncatedError:
                if self.segment.start_offset <= offset:
                    raise
                return  # compaction has moved it meanwhile
            learned.versions[offset] = decode_version(data, offset, self.segment.name)

    def check_in_log(self, offset: int) -> None:
        """Raise DataCorruptionError if an entry that was found just now lies in front of the log."""
        if offset < self.segment.start_offset:
            raise DataCorruptionError(
                f"the index leads in front of the log, which begins at {self.segment.start_offset}",
                path=self.segment.name,
                offset=offset,
            )

    async def _look_up(self, keys: Sequence[bytes], learned: Learned) -> None:
        with self.segment.held():
            root = await self.index.open()
            values = await self.index.lookup(b"".join(keys))
        if learned.root is not root:
            learned.root = root
            learned.values.clear()
        if self.index.root is root:
            learned.values.update(zip(keys, values, strict=True))

    async def locate(self, keys: Sequence[bytes]) -> list[int] | None:
        """Return the durable location of each tree key, or REMOVED, as of the moment of the return; None if
        the table was retired meanwhile. Raises as :meth:`learn`.
        """
        learned = None
        while True:
            self.settle()
            found = self.state.find_all_durable(keys, learned)
            unknown = [key for key, location in zip(keys, found, strict=True) if location == UNKNOWN]
            if not unknown:
                return found
            learned = learned or Learned()
            await self._look_up(unknown, learned)
            if self.retired:
                return None

    async def find_range(self, first: bytes, last: bytes, count: int) -> list[tuple[bytes, int]] | None:
        """Return up to ``count`` tree keys in order, both bounds included, with their durable locations as of
        the moment of the return; one at least if there is one. None if the table was retired meanwhile.
        Raises as :meth:`learn`.
        """
        count = min(count, _RANGE_MAX)
        size = self.tree_keys.key_bytes
        while True:
            found: dict[bytes, int] = {}
            end = last
            with self.segment.held():
                root = await self.index.open()
                some = None if root.page is None else await self.index.read_range(first, last, count)
                if self.retired:
                    return None
                if some is not None:
                    if self.index.root is not root:
                        continue
                    keys = [some.keys[at : at + size] for at in range(0, len(some.keys), size)]
                    found = dict(zip(keys, some.values, strict=True))
                    if len(keys) == count:
                        end = keys[-1]
            self.settle()
            for entries in (self.state.frozen, self.state.unindexed):
                if entries is not None:
                    newer, complete = entries.range(first, end, count)
                    end = min(end, complete)
                    found |= {key: each for key in newer if (each := entries.locations.get(key)) is not None}
            page = sorted((key, each) for key, each in found.items() if each != REMOVED and key <= end)
            following = self.tree_keys.behind(end)
            if page or end == last or following is None:
                return page[:count]
            first = following

    async def count(self) -> tuple[int, int, int] | None:
        """Return start offset, end and number of keys of the log, of one moment during the call; None if the
        table was retired meanwhile. Raises as :meth:`learn`.
        """
        budget = LoopBudget(_COUNTED_AT_ONCE)
        while True:
            with self.segment.held():
                root = await self.index.open()
                self.settle()
                start, end = self.segment.start_offset, self.state.durable_end
                keys, count = self._unindexed_keys()
                if root.page is not None:
                    count += root.entries
                    for at in range(0, len(keys), _COUNTED_AT_ONCE):
                        await budget.spend(_COUNTED_AT_ONCE)
                        values = await self.index.lookup(b"".join(keys[at : at + _COUNTED_AT_ONCE]))
                        count -= sum(value != ABSENT for value in values)
                        if self.retired or self.index.root is not root:
                            break
            if self.retired:
                return None
            if self.index.root is root:
                return start, end, count

    def _unindexed_keys(self) -> tuple[list[bytes], int]:
        """Return all keys that the index does not tell about, and how many of them exist."""
        unindexed, frozen = self.state.unindexed, self.state.frozen
        if frozen is None:
            return list(unindexed.locations), unindexed.live_count
        locations = {**frozen.locations, **unindexed.locations}
        return list(locations), sum(location != REMOVED for location in locations.values())
