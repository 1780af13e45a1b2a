"""Gives a process all containers at once, as its cluster does at a start."""

import asyncio
import contextlib


async def give_all(assignment, count):
    """Give ``count`` containers; the first failure takes all and is raised."""
    giving = [asyncio.ensure_future(assignment.give(number)) for number in range(count)]
    try:
        done, _ = await asyncio.wait(giving, return_when=asyncio.FIRST_EXCEPTION)
        for given in done:
            given.result()
    except BaseException:
        with contextlib.suppress(Exception):  # the error of the start is raised
            await assignment.take_all()
        for given in giving:
            given.cancel()
        raise
