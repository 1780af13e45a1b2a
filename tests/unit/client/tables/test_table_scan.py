import asyncio

import pytest

from headrace.client.tables.key_layout import KeyBounds
from headrace.client.tables.table_scan import PAGE_COUNT_MAX, TableScan
from headrace.errors import ConnectionLostError

ALL = KeyBounds(b"\x00\x00", b"\xff\xff")


class Served:
    """Keys of several segments, served in pages."""

    def __init__(self, *segments):
        self.segments = [sorted(keys) for keys in segments]
        self.asked = []
        self.running = 0
        self.fail_from = None

    async def read(self, segment_id, first, last, count):
        self.asked.append((segment_id, first, last))
        self.running += 1
        try:
            await asyncio.sleep(0)
            if self.fail_from is not None and first >= self.fail_from:
                raise ConnectionLostError("gone")
            page = [(key,) for key in self.segments[segment_id] if first <= key <= last][:count]
            return page, page[-1][0] if page else b""
        finally:
            self.running -= 1


def keys(*numbers):
    return [number.to_bytes(2) for number in numbers]


async def scanned(served, bounds=ALL, into=None):
    found = [] if into is None else into
    async for page in TableScan(served.read, range(len(served.segments)), bounds):
        found += [key for (key,) in page]
    return found


async def test_segments_are_merged_over_many_pages():
    everything = keys(*range(0, 9000, 3))
    served = Served(everything[0::3], everything[1::3], everything[2::3])
    assert await scanned(served) == everything
    assert served.running == 0
    assert len(served.asked) > 3 * len(everything) // (3 * PAGE_COUNT_MAX)


async def test_a_range_ends_without_a_question_behind_its_last_key():
    served = Served(keys(1, 5, 9))
    assert await scanned(served, KeyBounds(*keys(2, 9))) == keys(5, 9)
    assert served.asked == [(0, *keys(2, 9))]
    assert await scanned(served, KeyBounds(*keys(2, 8))) == keys(5)
    assert served.asked[1:] == [(0, *keys(2, 8)), (0, *keys(6, 8))]


async def test_the_very_last_key_ends_a_pass():
    served = Served([b"\xff\xff"])
    assert await scanned(served) == [b"\xff\xff"]
    assert len(served.asked) == 1


async def test_nothing_is_found_in_an_empty_table():
    assert await scanned(Served([], [], [])) == []


async def test_the_next_page_is_asked_for_while_one_is_used():
    served = Served(keys(*range(3 * PAGE_COUNT_MAX)))
    pages = TableScan(served.read, [0], ALL)
    await anext(pages)
    await asyncio.sleep(0)
    assert len(served.asked) == 2
    await pages.aclose()


async def test_a_pass_that_is_left_stops_asking():
    served = Served(*(keys(*range(n, 3000, 4)) for n in range(4)))
    pages = TableScan(served.read, range(4), ALL)
    await anext(pages)
    await pages.aclose()
    asked = len(served.asked)
    await asyncio.sleep(0)
    assert served.running == 0
    assert len(served.asked) == asked


async def test_what_was_there_is_given_out_before_a_failure():
    served = Served(keys(*range(3000)))
    served.fail_from = keys(2 * PAGE_COUNT_MAX)[0]
    found = []
    with pytest.raises(ConnectionLostError):
        await scanned(served, into=found)
    assert len(found) == 2 * PAGE_COUNT_MAX
    assert served.running == 0
