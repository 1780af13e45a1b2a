"""Updates of tables as a connection makes them: together with others where that is possible."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from headrace.errors import HeadraceError
from headrace.model.tables import TableEntry
from headrace.segmentstore.tables.tables import ContainerTables


async def join_update(
    tables: ContainerTables,
    name: str,
    entries: Sequence[TableEntry],
    expected_length: int = -1,
) -> list[int]:
    """Do what ``table_update`` does, in one append with others that begin in this iteration of the loop."""
    updated: asyncio.Future[list[int] | None] = asyncio.get_running_loop().create_future()
    if tables.begin_update(name, entries, expected_length, partial(_on_updated, updated)):
        versions = await updated
        if versions is not None:
            return versions
    return await tables.update(name, entries, expected_length)


def _on_updated(
    updated: asyncio.Future[list[int] | None], versions: list[int] | None, error: HeadraceError | None
) -> None:
    if updated.done():
        return  # the caller has given up
    if error is None:
        updated.set_result(versions)
    else:
        updated.set_exception(error)
