"""Calls about key-value tables."""

from __future__ import annotations

from collections.abc import AsyncIterator

from headrace.client.face.core import ClientCore
from headrace.client.opening import Opening
from headrace.client.scoped_name import both_names
from headrace.client.tables.key_value_table import KeyValueTable
from headrace.model.key_value_table import KeyValueTableConfiguration


class TableFace(ClientCore):
    """Key-value tables."""

    async def create_key_value_table(
        self,
        scope: str,
        table: str | None = None,
        *,
        primary_key_bytes: int,
        secondary_key_bytes: int = 0,
        partitions: int = 1,
        rollover_bytes: int = 0,
    ) -> bool:
        """Create a key-value table; False if one with this name exists already, whatever its configuration.

        Args:
            scope: where; or ``"scope/table"``.
            table: its name.
            primary_key_bytes: of every primary key, which decides the partition.
            secondary_key_bytes: of every secondary key; 0: the table has none.
            partitions: how many parts are spread over the segment stores, for ever.
            rollover_bytes: size of chunks in long-term storage; 0 leaves it to the server.

        Raises:
            NoSuchScopeError: the scope does not exist.
            InvalidArgumentError: the numbers or the name are none that a table can have.
        """
        scope, table = both_names(scope, table, "table")
        configuration = KeyValueTableConfiguration(
            partitions=partitions,
            primary_key_bytes=primary_key_bytes,
            secondary_key_bytes=secondary_key_bytes,
            rollover_bytes=rollover_bytes,
        )
        return await self._tables.create(scope, table, configuration)

    async def key_value_table_configuration(
        self, scope: str, table: str | None = None
    ) -> KeyValueTableConfiguration:
        """Return what a key-value table was created with. Raises NoSuchKeyValueTableError."""
        scope, table = both_names(scope, table, "table")
        return await self._tables.configuration(scope, table)

    def list_key_value_tables(self, scope: str) -> AsyncIterator[str]:
        """Iterate over the key-value tables of a scope. Raises NoSuchScopeError."""
        return self._tables.list(scope)

    async def delete_key_value_table(self, scope: str, table: str | None = None) -> bool:
        """Remove a key-value table with all its entries; False if there is none."""
        scope, table = both_names(scope, table, "table")
        return await self._tables.delete(scope, table)

    def key_value_table(self, scope: str, table: str | None = None) -> Opening[KeyValueTable]:
        """Open a key-value table, as a context.

        >>> await client.create_key_value_table("demo/stock", primary_key_bytes=5)
        True
        >>> async with client.key_value_table("demo/stock") as table:
        ...     version = await table.put(b"apple", b"12")

        Raises (when opened):
            NoSuchKeyValueTableError: there is no such table.
        """
        return Opening(self._open_table(scope, table))

    async def _open_table(self, scope: str, table: str | None) -> KeyValueTable:
        scope, table = both_names(scope, table, "table")
        configuration = await self._tables.configuration(scope, table)
        partitions = await self._tables.partitions(scope, table)
        return KeyValueTable(scope, table, configuration, partitions, self._owner_calls)
