"""Iterators go on after a wait that was cancelled or has failed: listings, scans, and loops that read."""

import asyncio

import pytest

from headrace.client.blocking.loop_iterator import LoopIterator, PageIterator
from headrace.client.blocking.loop_thread import LoopThread
from headrace.client.iterators import Each, Items
from headrace.client.tables.key_layout import KeyBounds
from headrace.client.tables.table_scan import TableScan
from headrace.errors import ConnectionLostError
from tests.unit.client.reader.interrupts import interrupted, until_uninterrupted

PAGES = [[1, 2, 3], [], [4], [5, 6]]
ALL = KeyBounds(b"\x00", b"\xff")


class Served:
    """Pages, each of which takes a while."""

    def __init__(self):
        self.place = 0
        self.failures = 0

    async def next_page(self):
        await asyncio.sleep(0)
        if self.failures:
            self.failures -= 1
            raise ConnectionLostError("gone")
        if self.place == len(PAGES):
            return None
        self.place += 1
        return PAGES[self.place - 1]

    async def read_range(self, segment_id, first, last, count):
        """Serve the even keys, or the odd ones."""
        await asyncio.sleep(0)
        if self.failures:
            self.failures -= 1
            raise ConnectionLostError("gone")
        keys = [bytes([key]) for key in range(segment_id, 256, 2)]
        page = [(key,) for key in keys if first <= key <= last][:9]
        return page, page[-1][0] if page else b""


async def take(items, ticks, served):
    """Return everything; before each item one wait is cancelled after some ticks, and one fails."""
    found = []
    while True:
        task = asyncio.ensure_future(anext(items, None))
        for _ in range(ticks):
            await asyncio.sleep(0)
        task.cancel()
        try:
            item = await task
        except asyncio.CancelledError:
            item = ()
        if item == ():
            served.failures = ticks % 2
            try:
                item = await anext(items, None)
            except ConnectionLostError:
                item = await anext(items, None)
        if item is None:
            return found
        found.append(item)


@pytest.mark.parametrize("ticks", range(8))
async def test_items_of_pages_come_once_whatever_becomes_of_the_waits(ticks):
    served = Served()
    assert await take(Items(Each(served.next_page)), ticks, served) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("ticks", range(8))
async def test_a_scan_goes_on_where_a_wait_was_cancelled_or_has_failed(ticks):
    served = Served()
    scan = TableScan(served.read_range, [0, 1], ALL)
    found = await take(Items(scan), ticks, served)
    assert found == [(bytes([key]),) for key in range(256)]
    await scan.aclose()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
@pytest.mark.parametrize("by_pages", [False, True])
def test_an_interrupt_costs_an_iterator_of_a_thread_no_item(by_pages):
    thread = LoopThread("asyncio")

    def attempt(at):
        pages = Each(Served().next_page)
        items = PageIterator(thread, pages) if by_pages else LoopIterator(thread, Items(pages))
        found, was_interrupted = [], False
        try:
            with interrupted(at):
                found.extend(items)
        except KeyboardInterrupt:
            was_interrupted = True
            found.extend(items)
        assert found == [1, 2, 3, 4, 5, 6]
        return was_interrupted

    assert until_uninterrupted(attempt) > 20
    thread.stop()
