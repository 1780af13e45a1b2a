"""What a check of a whole container says, and of what it says nothing."""

import shutil

import pytest

from headrace.model import attributes as attr
from headrace.model.tables import TableEntry
from headrace.runtime.read_only_files import ReadOnlyFiles
from headrace.segmentstore.container.catalogue_row import encode_row
from headrace.segmentstore.container.segment_catalogue import catalogue_name
from headrace.segmentstore.inspection import container_check
from headrace.segmentstore.inspection.container_check import check_container
from headrace.segmentstore.operations import catalogue as ops
from headrace.segmentstore.segment_names import storage_table_name
from headrace.segmentstore.state.metadata_checkpoint import encode_segment_row
from headrace.segmentstore.state.segment_attributes import SegmentAttributes
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.segmentstore.tables.entry_format import encode_entries
from headrace.storage.inspect import ChunkFiles
from headrace.storage.metadata import rows as r
from headrace.wal.file.logs import FoundFileLog
from tests.unit.segmentstore.inspection.logs import INCARNATION, checkpoint, make_log, store_segment

CATALOGUE, TABLE, STORAGE, ACTIVE, INACTIVE = 1, 2, 3, 5, 6
BEHIND = (ops.StorageRows(9),)


def segment(number, name, length=0, **fields):
    """A segment as its row says it."""
    accepted = {f"accepted_{key}": value for key, value in fields.items() if key != "attributes"}
    return SegmentState(number, name, durable_length=length, accepted_length=length, **fields, **accepted)


class Place:
    """The log and the chunks of container 0."""

    def __init__(self, directory):
        self.log = directory / "log"
        self.files = ReadOnlyFiles()
        self.chunks = ChunkFiles(str(directory / "chunks"), self.files)
        self.rows = {r.INCARNATION_KEY: r.encode_incarnation_row(INCARNATION)}

    def store(self, state, *contents):
        """Return the rows of storage; those of active segments go into the checkpoint."""
        return store_segment(self.chunks, state.storage_name, *contents)[1]

    async def make(self, *states, behind=BEHIND):
        rows = [encode_segment_row(state) for state in states]
        await make_log(self.log, [*checkpoint(*rows, storage_rows=self.rows), *behind])

    async def make_inactive(self, *left, active=()):
        """A container whose catalogue has a row for each of ``left``: segments with rows of storage, which
        are in the table of them.
        """
        entries = [TableEntry(s.name.encode(), encode_row(s)) for s, _ in left]
        await self.make_catalogue(entries, *active, rows={k: v for _, rows in left for k, v in rows.items()})

    async def make_catalogue(self, entries, *active, rows=None):
        content, _ = encode_entries(entries)
        behind = [ops.Append(9, CATALOGUE, 0, {}, content)]
        if rows:
            content, _ = encode_entries(TableEntry(key.encode(), row) for key, row in rows.items())
            behind.append(ops.Append(10, STORAGE, 0, {}, content))
        own = segment(CATALOGUE, catalogue_name(0)), segment(STORAGE, storage_table_name(0))
        await self.make(*own, *active, behind=behind)

    def check(self, *, deep=False):
        return check_container(0, FoundFileLog(str(self.log), self.files), self.chunks, deep=deep)

    def found(self, **arguments):
        return [(finding.what, finding.where) for finding in self.check(**arguments).findings]


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


# ---- bytes


@pytest.mark.parametrize("stored", [0, 4, 9])
async def test_durable_bytes_that_neither_the_log_nor_chunks_hold_are_found(place, stored):
    state = segment(ACTIVE, "demo/s", 10)
    if stored:
        place.rows |= place.store(state, bytes(stored))
    await place.make(state, behind=[ops.Append(9, ACTIVE, 10, {}, b"late")])
    assert place.found() == [
        (
            f"durable bytes from offset {stored} on are neither in the log nor in chunks",
            "segment 'demo/s' (id 5), durable to 14",
        )
    ]


@pytest.mark.parametrize("deep", [False, True])
async def test_a_container_that_has_every_byte_has_no_finding(place, deep):
    state = segment(ACTIVE, "demo/s", 10)
    place.rows |= place.store(state, bytes(7), bytes(3))
    late = ops.Append(9, ACTIVE, 10, {}, b"late")
    await place.make(state, segment(7, "demo/empty"), behind=[late])
    report = place.check(deep=deep)
    assert report.findings == []
    assert (report.complete, report.segments, report.chunks) == (True, 2, 2)
    assert report.verified_bytes == (10 if deep else 0)


@pytest.mark.parametrize("end", [{"deleted": True}, {"merged": True, "sealed": True}])
async def test_the_bytes_of_a_segment_that_is_leaving_are_missed_by_nobody(place, end):
    await place.make(segment(ACTIVE, "demo/s", 10, **end))
    assert place.found() == []


async def test_a_state_that_breaks_an_invariant_is_found_with_the_invariant(place):
    await place.make(segment(ACTIVE, "demo/s", 10, start_offset=11))
    (what, where), *_ = place.found()
    assert what.startswith("invariant broken: 0 <= self.start_offset <= self.accepted_start_offset")
    assert where == "segment 'demo/s' (id 5)"


# ---- segments that left memory


async def test_an_inactive_segment_that_storage_holds_whole_is_no_finding(place):
    stored, empty = segment(INACTIVE, "demo/left", 10), segment(7, "demo/empty")
    await place.make_inactive((stored, place.store(stored, bytes(7), bytes(3))), (empty, {}))
    report = place.check(deep=True)
    assert report.findings == []
    assert (report.inactive_segments, report.verified_bytes) == (2, 10)


@pytest.mark.parametrize("stored", [0, 9])
async def test_an_inactive_segment_of_which_storage_lacks_bytes_is_found(place, stored):
    state = segment(INACTIVE, "demo/left", 10)
    await place.make_inactive((state, place.store(state, bytes(stored)) if stored else {}))
    assert place.found() == [
        (f"it has 10 bytes, storage holds {stored}", "inactive segment 'demo/left' (id 6)")
    ]


async def test_an_inactive_segment_whose_rows_stayed_in_memory_is_as_whole_as_any(place):
    state = segment(INACTIVE, "demo/left", 10)
    place.rows |= place.store(state, bytes(10))
    await place.make_inactive((state, {}))
    assert place.found() == []


async def test_a_name_that_an_active_and_an_inactive_segment_have_is_found(place):
    state, taken = segment(INACTIVE, "demo/left", 10), segment(ACTIVE, "demo/left")
    await place.make_inactive((state, place.store(state, bytes(10))), active=[taken])
    assert place.found() == [("its name is that of an active segment", "inactive segment 'demo/left' (id 6)")]


async def test_a_row_of_the_catalogue_whose_segment_is_in_memory_says_nothing(place):
    before, now = segment(ACTIVE, "demo/back", 3), segment(ACTIVE, "demo/back", 10)
    place.rows |= place.store(now, bytes(10))
    await place.make_inactive((before, {}), active=[now])
    report = place.check()
    assert (report.findings, report.inactive_segments) == ([], 0)


async def test_a_table_of_rows_that_does_not_decode_is_found_and_condemns_no_chunk(place):
    state = segment(ACTIVE, "demo/s", 10)
    place.store(state, bytes(10))
    content = b"no entry of a table at all"
    table = segment(STORAGE, storage_table_name(0), len(content))
    place.rows |= place.store(table, content)
    await place.make(state, table)
    report = place.check()
    assert [finding.where for finding in report.findings] == ["table of storage's rows of container 0"]
    assert not report.rows_known


async def test_a_catalogue_that_does_not_decode_is_found_and_condemns_no_stored_segment(place):
    """Who is inactive cannot be known then, so nobody says of a stored segment that it is unknown."""
    place.rows |= place.store(segment(INACTIVE, "demo/left"), bytes(10))
    row = bytearray(encode_row(segment(INACTIVE, "demo/left", 10)))
    row[7] ^= 1
    await place.make_catalogue([TableEntry(b"demo/left", bytes(row))])
    ((_, where),) = place.found()
    assert where == "segment catalogue of container 0"


# ---- tables and the log


async def test_a_table_that_does_not_decode_is_found_by_a_deep_look_only(place):
    table = segment(TABLE, "demo/t", attributes=SegmentAttributes({attr.SEGMENT_TYPE: attr.TYPE_TABLE}))
    content, _ = encode_entries([TableEntry(b"a", b"1"), TableEntry(b"b", b"2")])
    await place.make(table, behind=[ops.Append(9, TABLE, 0, {}, content[:-1])])
    assert place.found() == []
    ((what, where),) = place.found(deep=True)
    assert what.startswith("the table ends with")
    assert where == "table 'demo/t' (id 2)"


async def test_a_table_is_counted_by_its_entries(place):
    table = segment(TABLE, "demo/t", attributes=SegmentAttributes({attr.SEGMENT_TYPE: attr.TYPE_TABLE}))
    content, _ = encode_entries([TableEntry(b"a", b"1"), TableEntry(b"b", b"2")])
    await place.make(table, behind=[ops.Append(9, TABLE, 0, {}, content)])
    report = place.check(deep=True)
    assert (report.findings, report.table_entries) == ([], 2)


def test_a_log_that_is_missing_is_found(place):
    report = place.check()
    (finding,) = report.findings
    assert finding.what.startswith("the log of this container is missing")
    assert (report.damaged, report.complete) == (1, False)


# ---- a server that goes on meanwhile


class Running(Place):
    """A server whose log is another one from the moment on at which :meth:`go_on` is called."""

    def __init__(self, directory):
        super().__init__(directory)
        self.log_now, self.log = self.log, directory / "first"
        self._logs = [self.log]

    def later(self):
        """What is made from now on is what the server has done when it went on."""
        self.log = self.log.with_name("second")
        self.rows = {r.INCARNATION_KEY: self.rows[r.INCARNATION_KEY]}
        self._logs.append(self.log)

    def go_on(self):
        if self._logs:
            shutil.rmtree(self.log_now, ignore_errors=True)
            self._logs.pop(0).rename(self.log_now)

    def check(self, *, deep=False):
        self.log = self.log_now
        self.go_on()
        return super().check(deep=deep)


@pytest.fixture
def running(tmp_path):
    return Running(tmp_path)


async def test_a_catalogue_whose_log_is_cut_behind_the_replay_is_read_of_the_next_one(running, monkeypatch):
    state = segment(INACTIVE, "demo/left", 10)
    rows = running.store(state, bytes(10))
    await running.make_inactive((state, rows))
    running.later()
    await running.make_inactive((state, rows))
    replay = container_check.replay_container

    def replay_and_go_on(*arguments):
        found = replay(*arguments)
        running.go_on()
        return found

    monkeypatch.setattr(container_check, "replay_container", replay_and_go_on)
    report = running.check()
    assert (report.findings, report.inactive_segments) == ([], 1)


@pytest.mark.parametrize("stored", [False, True])
async def test_tables_are_read_as_they_are_when_all_chunks_were_read(running, monkeypatch, stored):
    """Which takes long: by then the log was cut, and the table compacted, so that its first chunk is gone."""
    fields = {"attributes": SegmentAttributes({attr.SEGMENT_TYPE: attr.TYPE_TABLE})}
    entries = [TableEntry(b"a", b"1"), TableEntry(b"b", b"2")]
    content, _ = encode_entries(entries)
    size = len(content)
    before = segment(TABLE, "demo/t", size if stored else 0, **fields)
    if stored:
        running.rows |= running.store(before, content)
    await running.make(before, behind=BEHIND if stored else [ops.Append(9, TABLE, 0, {}, content)])
    first_chunks = list((running.log.parent / "chunks").rglob("*.chunk"))
    running.later()
    after = segment(TABLE, "demo/t", 2 * size, start_offset=size, **fields)
    layout = {"length": size, "start_offset": size, "first_chunk_start": size}
    running.rows |= store_segment(running.chunks, after.storage_name, content, **layout)[1]
    await running.make(after)
    read_chunks = container_check.StorageCheck.run

    def read_and_go_on(self):
        read_chunks(self)
        running.go_on()
        for path in first_chunks:
            path.unlink()

    monkeypatch.setattr(container_check.StorageCheck, "run", read_and_go_on)
    report = running.check(deep=True)
    assert (report.findings, report.table_entries) == ([], 2)
