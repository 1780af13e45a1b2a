"""Logs over real bookies."""

import itertools
from contextlib import asynccontextmanager
from dataclasses import replace

from headrace.data_directory.log_place import place_of
from headrace.runtime.context import system_runtime
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
