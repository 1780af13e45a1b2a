"""Compacts the logs of tables in the background, so that a table rewritten for years stays as large as its
keys.
"""

from __future__ import annotations

import logging

from headrace.errors import EventTooLargeError, HeadraceError, NoSuchSegmentError
from headrace.runtime.supervisor import Supervisor
from headrace.segmentstore.contract import SegmentAccess
from headrace.segmentstore.tables.compaction_plan import CompactionRound, is_compaction_due
from headrace.segmentstore.tables.config import TablesConfig
from headrace.segmentstore.tables.entry_format import encode_entries
from headrace.segmentstore.tables.open_table import OpenTable
from headrace.segmentstore.tables.table_index import pack_location
from headrace.segmentstore.tables.table_log import scan_log
from headrace.segmentstore.tables.table_state import Batch

_logger = logging.getLogger(__name__)


class TableCompactor:
    """Runs at most one compaction per table. A failed one is retried after a later update."""

    def __init__(self, access: SegmentAccess, config: TablesConfig) -> None:
        self._access = access
        self._config = config
        self._supervisor = Supervisor("table compaction")
        self._closed = False
        self._round_bytes = config.compaction_bytes_max
        """What one round reads. The copies are one append: less, if the log has turned out to take less."""
        self.rounds = 0
        self.copied_bytes = 0

    def start_if_due(self, table: OpenTable) -> None:
        """Begin to compact ``table`` if its log needs it. Never waits."""
        if not (table.compacting or table.retired or self._closed) and self._is_due(table):
            table.compacting = True
            self._supervisor.spawn(table.segment.name, self._compact(table))

    async def close(self) -> None:
        """Stop between any two steps: every step leaves a whole table."""
        self._closed = True
        await self._supervisor.stop()

    def _is_due(self, table: OpenTable) -> bool:
        return not table.segment.accepted_sealed and is_compaction_due(
            table.log_bytes,
            table.state.index.live_bytes,
            dead_bytes_min=self._config.compaction_bytes_max,
            utilization_percent_min=self._config.utilization_percent_min,
        )

    async def _compact(self, table: OpenTable) -> None:
        try:
            while not table.retired and self._is_due(table):
                try:
                    await self._run_round(table)
                except EventTooLargeError:
                    if self._round_bytes == 1:  # that was a single entry
                        raise
                    self._round_bytes //= 2
        except NoSuchSegmentError:
            pass  # deleted meanwhile
        except HeadraceError as error:
            _logger.warning("compaction of table %r was postponed: %s", table.segment.name, error)
        finally:
            table.compacting = False

    async def _run_round(self, table: OpenTable) -> None:
        segment, state = table.segment, table.state
        part = CompactionRound(segment.accepted_start_offset, self._round_bytes)
        async for entries, data in scan_log(self._access, segment, part.start, state.durable_end):
            part.read(entries, data, state)
            if part.is_full:
                break
        await table.wait_batch_sent()
        if table.retired:
            return
        table.settle()
        survivors = part.survivors(state)
        if survivors:
            copies, starts = encode_entries(survivors, copies=True)
            tail = state.tail
            locations = [
                pack_location(tail + start, entry.version, len(entry.value))
                for start, entry in zip(starts, survivors, strict=True)
            ]
            keys = [entry.key for entry in survivors]
            if not await table.append(Batch(tail, tail + len(copies), keys, locations), copies):
                return
            self.copied_bytes += len(copies)
        elif not await table.wait_durable(state.tail):
            # Updates in flight may supersede what was not copied: they must be durable before it goes.
            return
        if not table.retired:
            await self._access.truncate(segment, part.end)
            self.rounds += 1
