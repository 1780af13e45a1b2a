"""Logs over real bookies."""

import asyncio
import itertools
from contextlib import asynccontextmanager
from dataclasses import replace

from headrace.data_directory.log_place import place_of
from headrace.errors import HeadraceError
from headrace.runtime.context import system_runtime
from headrace.testing.conformance.wal import append_all, numbered
from headrace.wal.bookkeeper.log_node import decode_log
from headrace.wal.bookkeeper.renewed_session import RenewedSession
from headrace.wal.stores import make_logs
from tests.unit.wal.world import SMALL

NAMES = map("t{}".format, itertools.count())


def log_place(bookkeeper, query="", config=None):
    """Return a place of logs that no other test has."""
    joined = f"{query}&" if query else "?"
    place = place_of(bookkeeper.uri(f"{joined}system={next(NAMES)}"), system_runtime())
    return replace(place, config=config)


@asynccontextmanager
async def logs_at(place, config=SMALL):
    logs = make_logs("", system_runtime(), config, place=place)
    try:
        yield logs
    finally:
        await logs.close()


async def opened(logs, container=0):
    wal = logs.make_wal(container)
    await wal.open()
    return wal


async def ledgers_of(place):
    """Return the ledgers of the log of container 0."""
    nodes = RenewedSession(place.cluster.make_coordinator())
    try:
        found = await nodes.read(place.cluster.log_path(0))
        return [] if found is None else [each.ledger for each in decode_log(found.data, 0).ledgers]
    except HeadraceError:
        return []
    finally:
        await nodes.close()


class Load:
    """Appends numbered contents until it is ended."""

    def __init__(self, wal, start=0):
        self.wal = wal
        self.acknowledged = []
        self._start = start
        self._is_ended = False
        self._work = asyncio.ensure_future(self._run())

    async def _run(self):
        number = self._start
        while not self._is_ended:
            appended = await append_all(self.wal, numbered(20, start=number, size=400))
            self.acknowledged += appended.acknowledged
            if error := next(filter(None, appended.errors), None):
                raise error
            number += 20

    async def until(self, more):
        """Wait until so many more are acknowledged."""
        wanted = len(self.acknowledged) + more
        while len(self.acknowledged) < wanted and not self._work.done():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        if self._work.done():
            self._work.result()

    async def end(self):
        self._is_ended = True
        await self._work
        return self.acknowledged
