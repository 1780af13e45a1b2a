"""Create and delete key-value tables: a row and one table segment per partition.

Create: row CREATING; segments; row ACTIVE. Delete: row DELETING; highest number remembered; segments; the row
goes. Any controller goes on from what the row says.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from headrace.controller.context import ControllerContext
from headrace.controller.store.layout import KEY_VALUE_TABLE
from headrace.controller.store.rows.table_row import TableRow, TableState, decode_table, encode_table
from headrace.controller.streams.members import NEW, Member, Members
from headrace.errors import (
    InvalidArgumentError,
    KeyValueTableExistsError,
    NoSuchKeyValueTableError,
    StreamBusyError,
)
from headrace.limits import FIXED_KEY_BYTES_MAX
from headrace.model.names import TABLE_SUFFIX, check_user_name, segment_name
from headrace.model.segment_id import make_segment_id

PARTITIONS_MAX: Final = 10_000

Table = Member[TableRow]


class KeyValueTables:
    """What one may do with key-value tables. Used on the controller's loop."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self.rows: Members[TableRow] = Members(
            context.store, context.scopes, KEY_VALUE_TABLE, encode_table, decode_table
        )

    async def get(self, scope: str, name: str) -> Table:
        """Return a table that can be used. Raises NoSuchKeyValueTableError."""
        table = await self.rows.find(scope, name)
        if table is None or table.row.state is not TableState.ACTIVE:
            raise NoSuchKeyValueTableError(f"key-value table {scope}/{name} does not exist")
        return table

    async def create(self, scope_name: str, name: str, wanted: TableRow) -> None:
        """Create a table; ``wanted`` carries its numbers.

        Raises:
            InvalidArgumentError: the name is not legal.
            NoSuchScopeError: the scope does not exist or takes nothing new.
            KeyValueTableExistsError: it exists; one that was half-created is complete now.
        """
        check_user_name(name, "key-value table")
        scope = await self._context.scopes.get(scope_name)
        table = await self.rows.find(scope_name, name)
        if table is None:
            (first,) = await self._context.numbering.first_numbers(KEY_VALUE_TABLE, scope_name, [name])
            row = replace(
                wanted,
                created_ms=self._context.clock.now_ms(),
                state=TableState.CREATING,
                first_number=first,
            )
            table = Member(scope, name, row, NEW)
            if await self.rows.write(table, row):
                await self.resume(table)
                return
            table = await self.rows.find(scope_name, name)
        if table is None or table.row.state is TableState.DELETING:
            raise StreamBusyError(f"key-value table {scope_name}/{name} is being deleted")
        await self.resume(table)
        raise KeyValueTableExistsError(f"key-value table {scope_name}/{name} exists")

    async def delete(self, scope: str, name: str) -> None:
        """Raises NoSuchKeyValueTableError."""
        table = await self.rows.find(scope, name)
        if table is None:
            raise NoSuchKeyValueTableError(f"key-value table {scope}/{name} does not exist")
        await self.delete_member(table)

    async def delete_member(self, table: Table) -> None:
        """Delete a table as it was read."""
        doomed = replace(table.row, state=TableState.DELETING)
        if table.row != doomed and not await self.rows.write(table, doomed):
            full_name = f"{table.scope.name}/{table.name}"
            raise StreamBusyError(f"key-value table {full_name} is changed by another caller")
        await self.resume(table)

    async def resume(self, table: Table) -> None:
        """Finish what the row says. Repeatable from any step."""
        row = table.row
        match row.state:
            case TableState.CREATING:
                await self._context.segments.create_tables(
                    segments_of(table),
                    key_length=row.primary_key_bytes + row.secondary_key_bytes,
                    rollover_bytes=row.rollover_bytes,
                )
                if not await self._is_needed(table):
                    await self._context.segments.delete_tables(segments_of(table))
                    return
                await self.rows.write(table, replace(row, state=TableState.ACTIVE))
            case TableState.DELETING:
                highest = {table.name: row.first_number + row.partitions - 1}
                await self._context.numbering.remember(
                    KEY_VALUE_TABLE, table.scope.name, highest, self._context.clock.now_ms()
                )
                await self._context.segments.delete_tables(segments_of(table))
                await self.rows.remove(table)
            case TableState.ACTIVE:
                return

    async def _is_needed(self, table: Table) -> bool:
        """Whether segments that were just created may stay: another controller may have deleted the table and
        its segments before they were.
        """
        present = await self.rows.find(table.scope.name, table.name)
        return (
            present is not None
            and present.row.first_number == table.row.first_number
            and present.row.state is not TableState.DELETING
        )


def partition_ids(row: TableRow) -> list[int]:
    """Return the segment ids of a table in the order of their key ranges."""
    return [make_segment_id(row.first_number + index, 0) for index in range(row.partitions)]


def segments_of(table: Table) -> list[str]:
    """Return the qualified names of its table segments."""
    stem = table.name + TABLE_SUFFIX
    return [segment_name(table.scope.name, stem, segment_id) for segment_id in partition_ids(table.row)]


def check_table(
    partitions: int, primary_key_bytes: int, secondary_key_bytes: int, rollover_bytes: int
) -> None:
    """Raises InvalidArgumentError for numbers no table can have."""
    if not 1 <= partitions <= PARTITIONS_MAX:
        raise InvalidArgumentError(f"a key-value table has 1 to {PARTITIONS_MAX} partitions")
    if primary_key_bytes < 1 or secondary_key_bytes < 0:
        raise InvalidArgumentError("a primary key has at least one byte, a secondary one none or more")
    if primary_key_bytes + secondary_key_bytes > FIXED_KEY_BYTES_MAX:
        raise InvalidArgumentError(f"both keys together have at most {FIXED_KEY_BYTES_MAX} bytes")
    if rollover_bytes < 0:
        raise InvalidArgumentError("sizes are not negative")
