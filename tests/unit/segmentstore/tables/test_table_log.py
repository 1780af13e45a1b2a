"""Reading a table's log out of storage that does not always answer."""

import pytest

from headrace.errors import StorageReadError
from headrace.model.tables import TableEntry
from headrace.segmentstore.contract import ReadResult
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.segmentstore.tables.entry_format import encode_entries
from headrace.segmentstore.tables.log import SCAN_ATTEMPTS, read_exactly, scan_log

LOG = encode_entries([TableEntry(b"key-%d" % number, b"value") for number in range(50)])[0]
SEGMENT = SegmentState(1, "table")


class SlowAccess:
    """Answers 100 bytes at a time; at each of some offsets it fails so often first."""

    def __init__(self, failures):
        self.failures = dict(failures)
        self.asked = []

    async def read(self, segment, offset, length_max, *, wait):
        assert segment is SEGMENT
        self.asked.append(offset)
        if self.failures.get(offset, 0):
            self.failures[offset] -= 1
            raise StorageReadError(f"no answer at {offset}")
        return ReadResult(offset, [memoryview(LOG)[offset : offset + min(100, length_max)]])


async def scan(access):
    found = []
    async for entries, _ in scan_log(access, SEGMENT, 0, len(LOG)):
        found += [key for _, _, key, _, _, _ in entries]
    return found


async def test_a_scan_goes_on_where_storage_did_not_answer():
    access = SlowAccess({0: 1, 300: SCAN_ATTEMPTS - 1, 400: SCAN_ATTEMPTS - 1})
    assert await scan(access) == [b"key-%d" % number for number in range(50)]
    assert access.asked == sorted(access.asked)
    assert access.asked.count(300) == access.asked.count(400) == SCAN_ATTEMPTS


async def test_a_scan_gives_up_at_a_place_that_never_answers():
    access = SlowAccess({300: SCAN_ATTEMPTS})
    with pytest.raises(StorageReadError, match="no answer at 300"):
        await scan(access)
    assert access.asked[-1] == 300


async def test_who_reads_a_value_is_told_at_once():
    access = SlowAccess({100: 1})
    with pytest.raises(StorageReadError):
        await read_exactly(access, SEGMENT, 0, 500)
    assert access.asked == [0, 100]
