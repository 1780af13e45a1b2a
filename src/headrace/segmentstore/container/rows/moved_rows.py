"""Moves rows of long-term storage into the container's table of them, which earlier releases had elsewhere.

At the start of a container, before its storage begins to change anything, they are put into the table, then
removed from the log; a stop in between repeats that, with the same rows.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Final

from headrace.limits import KIB
from headrace.segmentstore.container.rows.row_parts import rows_of_table
from headrace.segmentstore.container.rows.storage_row_log import LogRowStore
from headrace.segmentstore.container.rows.table_rows import TableRowStore
from headrace.segmentstore.state.container_state import ContainerState
from headrace.storage.metadata.rows import (
    GARBAGE_PREFIX,
    NUMBERS_KEY,
    GarbageNumbersRow,
    encode_numbers_row,
    garbage_number,
    size_of,
)

_logger = logging.getLogger(__name__)

_BATCH_BYTES: Final = 64 * KIB


async def move_rows(state: ContainerState, log: LogRowStore, table: TableRowStore) -> None:
    """Move the rows that belong into the table out of the log. Storage has not started.

    Raises:
        DataCorruptionError: a garbage row is damaged.
    """
    rows = state.storage_rows
    if NUMBERS_KEY not in rows:
        numbers = [garbage_number(key) for key in rows if key.startswith(GARBAGE_PREFIX)]
        if numbers:
            row = GarbageNumbersRow(min(numbers), max(numbers) + 1)
            await log.commit({NUMBERS_KEY: encode_numbers_row(row)})
    moving = rows_of_table(rows)
    if not moving:
        return
    for batch in _batches(moving):
        await table.commit(batch)
    for batch in _batches(moving):
        await log.commit(dict.fromkeys(batch))
    _logger.info("container %d: %d rows of storage moved into its table", state.container_id, len(moving))


def _batches(rows: Mapping[str, bytes]) -> Iterator[dict[str, bytes | None]]:
    batch: dict[str, bytes | None] = {}
    size = 0
    for key, row in rows.items():
        batch[key] = row
        size += size_of({key: row})
        if size >= _BATCH_BYTES:
            yield batch
            batch, size = {}, 0
    if batch:
        yield batch
