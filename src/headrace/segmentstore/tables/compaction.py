"""Compacts the logs of tables in the background, so that a table rewritten for years stays as large as its
keys.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import pairwise
from typing import Final

from headrace.errors import EventTooLargeError, HeadraceError, NoSuchSegmentError
from headrace.runtime.loop_budget import LoopBudget
from headrace.runtime.supervisor import Supervisor
from headrace.segmentstore.contract import ContainerSegments
from headrace.segmentstore.tables.compaction_plan import CompactionPiece, CompactionRound, is_compaction_due
from headrace.segmentstore.tables.config import TablesConfig
from headrace.segmentstore.tables.entry_format import encode_entries
from headrace.segmentstore.tables.locations import pack_location
from headrace.segmentstore.tables.log import SCAN_BYTES, scan_log
from headrace.segmentstore.tables.open_table import OpenTable
from headrace.segmentstore.tables.state import Batch

_logger = logging.getLogger(__name__)

_KEYS_AT_ONCE: Final = 1024
"""Keys looked up, copied and accepted without a pause: some milliseconds."""


class TableCompactor:
    """Runs at most one compaction per table. A failed one is retried after a later update or index round.

    Args:
        is_exceeded: whether a table takes no copies now.
        on_ended: called with a table whose compaction has ended.
    """

    def __init__(
        self,
        access: ContainerSegments,
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
        self._piece_bytes = config.compaction_append_bytes
        """Copies of one append: less, if the log has turned out to take less."""
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
                    if self._piece_bytes == 1:  # that was a single entry
                        raise
                    self._piece_bytes //= 2
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
        part = CompactionRound(segment.accepted_start_offset, self._config.compaction_bytes_max)
        budget = LoopBudget(_KEYS_AT_ONCE)
        step = min(SCAN_BYTES, self._config.compaction_bytes_max)  # the next round would read the rest again
        scan = scan_log(self._access, segment, part.start, state.truncatable_end, step_bytes=step)
        async for entries, data in scan:
            puts = part.read(entries, data, table.tree_keys.of)
            for begin in range(0, len(puts), _KEYS_AT_ONCE):
                some = puts[begin : begin + _KEYS_AT_ONCE]
                await budget.spend(len(some))
                locations = await table.locate([put.tree_key for put in some])
                if locations is None:
                    return False
                part.retain(some, locations, state.durable_end, self._piece_bytes)
            if part.is_full:
                break
        for piece in part.pieces:
            if not await self._move(table, piece):
                return False
        end = min(part.end, state.truncatable_end)
        if table.retired or end <= part.start:
            return False
        await self._access.truncate(segment, end)
        self.rounds += 1
        return True

    async def _move(self, table: OpenTable, piece: CompactionPiece) -> bool:
        """Append what must move of a piece; return whether all of it is durable elsewhere now."""
        state = table.state
        while True:
            await table.wait_batch_sent()  # nothing is to be appended in front of what is judged now
            if table.retired:
                return False
            if not piece.is_outdated(state):
                break
            locations = await table.locate(piece.keys)
            if locations is None:
                return False
            piece.renew(locations, state.durable_end)
        survivors = piece.survivors(state)
        if not survivors:
            # Updates in flight may supersede what was not copied: they must be durable before it goes.
            return await table.wait_durable(state.tail)
        if self._is_exceeded(table):
            return False
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
        # What is in front of it is durable when it is: also updates that supersede what was not copied.
        if not await table.append(batch, copies):
            return False
        self.copied_bytes += len(copies)
        return True
