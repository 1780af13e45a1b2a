"""Compacts the logs of tables in the background, so that a table rewritten for years stays as large as its
keys.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import pairwise

from headrace.errors import EventTooLargeError, HeadraceError, NoSuchSegmentError
from headrace.runtime.supervisor import Supervisor
from headrace.segmentstore.contract import SegmentAccess
from headrace.segmentstore.tables.compaction_plan import Candidate, CompactionRound, is_compaction_due
from headrace.segmentstore.tables.config import TablesConfig
from headrace.segmentstore.tables.entry_format import encode_entries
from headrace.segmentstore.tables.locations import pack_location
from headrace.segmentstore.tables.open_table import OpenTable
from headrace.segmentstore.tables.table_log import scan_log
from headrace.segmentstore.tables.table_state import Batch

_logger = logging.getLogger(__name__)


class TableCompactor:
    """Runs at most one compaction per table. A failed one is retried after a later update or index round.

    Args:
        is_exceeded: whether a table takes no copies now.
        on_ended: called with a table whose compaction has ended.
    """

    def __init__(
        self,
        access: SegmentAccess,
        config: TablesConfig,
        is_exceeded: Callable[[OpenTable], bool],
        on_ended: Callable[[OpenTable], None],
    ) -> None:
        self._access = access
        self._config = config
        self._is_exceeded = is_exceeded
        self._on_ended = on_ended
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
        if table.log_bytes <= self._config.compaction_bytes_max:
            return False
        start = table.segment.accepted_start_offset
        return (
            not table.segment.accepted_sealed
            and table.state.truncatable_end > start
            and is_compaction_due(
                table.log_bytes,
                table.state.live_bytes,
                dead_bytes_min=self._config.compaction_bytes_max,
                utilization_percent_min=self._config.utilization_percent_min,
            )
        )

    async def _compact(self, table: OpenTable) -> None:
        try:
            while not table.retired and self._is_due(table) and not self._is_exceeded(table):
                try:
                    if not await self._run_round(table):
                        break
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
            table.notify_ended()
            self._on_ended(table)

    async def _run_round(self, table: OpenTable) -> bool:
        """Return whether the log is shorter now."""
        segment, state = table.segment, table.state
        part = CompactionRound(segment.accepted_start_offset, self._round_bytes)
        async for entries, data in scan_log(self._access, segment, part.start, state.truncatable_end):
            puts = part.read(entries, data, table.tree_keys.of)
            locations = await table.locate([put.tree_key for put in puts])
            if locations is None:
                return False
            part.retain(puts, locations)
            if part.is_full:
                break
        survivors = await self._find_survivors(table, part)
        if survivors is None or (survivors and self._is_exceeded(table)):
            return False
        if survivors:
            copies, starts = encode_entries([each.entry for each in survivors], copies=True)
            tail = state.tail
            offsets = [tail + start for start in starts]
            batch = Batch(
                tail,
                tail + len(copies),
                [each.tree_key for each in survivors],
                [
                    pack_location(offset, end - offset, copy=True)
                    for offset, end in pairwise([*offsets, tail + len(copies)])
                ],
                {offset: each.entry.version for offset, each in zip(offsets, survivors, strict=True)},
            )
            if not await table.append(batch, copies):
                return False
            self.copied_bytes += len(copies)
        elif not await table.wait_durable(state.tail):
            # Updates in flight may supersede what was not copied: they must be durable before it goes.
            return False
        end = min(part.end, state.truncatable_end)
        if table.retired or end <= part.start:
            return False
        await self._access.truncate(segment, end)
        self.rounds += 1
        return True

    async def _find_survivors(self, table: OpenTable, part: CompactionRound) -> list[Candidate] | None:
        """Return what must move now, with nothing to be appended in front of it; None if the table was
        retired.
        """
        keys = [each.tree_key for each in part.candidates]
        while True:
            await table.wait_batch_sent()
            locations = None if table.retired else await table.locate(keys)
            if locations is None or table.retired:
                return None
            if table.open_batch is None:
                return part.survivors(table.state, locations)
