"""Moves what is durable into the indexes of tables, in the background.

Nothing waits for it, unless a table has four times as many unindexed entries as a round starts for. A round
that is lost only means that more of the log is read when the table is opened.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

from headrace.errors import ContainerOfflineError, HeadraceError, NoSuchSegmentError, ThrottledError
from headrace.runtime.supervisor import Supervisor
from headrace.segmentstore.segment_names import is_internal
from headrace.segmentstore.tables.config import TablesConfig
from headrace.segmentstore.tables.index_write import write_index
from headrace.segmentstore.tables.open_table import OpenTable

_logger = logging.getLogger(__name__)

_EARLY_SHARE: Final = 4
"""Rounds start earlier while all tables have more than one part in so many of the bound of memory."""


class TableIndexer:
    """Runs at most one round per table. ``on_indexed`` is called with each table after one."""

    def __init__(self, config: TablesConfig, on_indexed: Callable[[OpenTable], None]) -> None:
        self._config = config
        self._on_indexed = on_indexed
        self._supervisor = Supervisor("table indexes")
        self._closed = False
        self.rounds = 0

    def start_if_due(self, table: OpenTable) -> None:
        """Begin to index ``table`` if there is enough. Never waits."""
        state, bounds = table.state, self._config.unindexed
        indexed = state.indexed_count
        if not bounds.is_due(len(state.unindexed), table.log_bytes, indexed):
            return
        start_offset = table.segment.accepted_start_offset
        if bounds.is_due(len(state.unindexed), state.unindexed_bytes(start_offset), indexed):
            self._start(table)

    def relieve(self, tables: Iterable[OpenTable]) -> None:
        """Begin to index the table with the most unindexed entries if all have too many."""
        sizes = [(table.state.memory_bytes, table) for table in tables]
        if sum(size for size, _ in sizes) * _EARLY_SHARE > self._config.index_bytes_max:
            self._start(max(sizes, key=lambda pair: pair[0])[1])

    def is_exceeded(self, table: OpenTable) -> bool:
        """Whether updates of ``table`` have to wait.

        Those of a container's own tables never do: they are few while storage takes no index, and stored
        bytes could not leave memory without them.
        """
        return not is_internal(table.segment.name) and self._lacks_much(table)

    def _lacks_much(self, table: OpenTable) -> bool:
        state, bounds = table.state, self._config.unindexed
        count, indexed = state.unindexed_count, state.indexed_count
        return bounds.is_exceeded(count, table.log_bytes, indexed) and bounds.is_exceeded(
            count, state.unindexed_bytes(table.segment.accepted_start_offset), indexed
        )

    async def wait_capacity(self, table: OpenTable) -> None:
        """Wait until ``table`` takes updates again, or is retired.

        Raises:
            ThrottledError: nothing was done.
            ContainerOfflineError: likewise, and the container stops.
        """
        if self._closed:
            raise ContainerOfflineError("the container stops: nothing was done")
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._config.unindexed.wait_s):
                while not (table.retired or self._closed) and self.is_exceeded(table):
                    self._start(table)
                    if table.indexing or table.compacting:
                        await table.wait_ended()
                    else:
                        await asyncio.sleep(max(0.0, table.index_retry_s - loop.time()))
        except TimeoutError:
            raise ThrottledError(
                f"table {table.segment.name!r} has {table.state.unindexed_count} entries that long-term"
                " storage has not taken into its index yet: nothing was done, send again"
            ) from None

    async def close(self) -> None:
        """Stop between any two steps: every step leaves a whole table."""
        self._closed = True
        await self._supervisor.stop()

    def _start(self, table: OpenTable) -> None:
        if table.indexing or table.retired or self._closed:
            return
        if table.index_retry_s > asyncio.get_running_loop().time():
            return
        table.settle()
        state = table.state
        if state.note is None and (table.compacting or not (state.unindexed or self._lacks_much(table))):
            # A truncation in flight could overtake the first steps of an index that has nothing yet. One that
            # is to have nothing is worth it only for a log so long that compaction would not begin.
            return
        if state.unindexed or state.unindexed_bytes(table.segment.accepted_start_offset):
            table.indexing = True
            self._supervisor.spawn(table.segment.name, self._run_round(table))

    async def _run_round(self, table: OpenTable) -> None:
        state, segment = table.state, table.segment
        is_indexed = False
        frozen = state.freeze()
        try:
            with segment.held():
                await write_index(
                    table.index, frozen, segment.accepted_start_offset, state.frozen_end, segment.name
                )
            is_indexed = True
            self.rounds += 1
        except NoSuchSegmentError:
            table.index_retry_s = asyncio.get_running_loop().time() + self._config.unindexed.retry_s
        except HeadraceError as error:
            table.index_retry_s = asyncio.get_running_loop().time() + self._config.unindexed.retry_s
            _logger.warning("the index of table %r is written later: %s", segment.name, error)
        finally:
            state.thaw(is_indexed=is_indexed)
            table.indexing = False
            table.notify_ended()
        if is_indexed and not table.retired:
            self.start_if_due(table)
            self._on_indexed(table)
