"""No row of long-term storage can be lost, damaged or left behind without a finding."""

import errno

import pytest

from headrace.runtime.filesystem import OsFilesystem
from headrace.runtime.read_only_files import ReadOnlyFiles
from headrace.segmentstore.inspection.findings import CheckReport, Severity
from headrace.segmentstore.inspection.object_check import find_strays
from headrace.segmentstore.inspection.storage_check import SegmentFacts, StorageCheck
from headrace.segmentstore.state.container_state import ContainerState
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.storage.chunks.segment_layout import put_chunk_row, walk_chunks
from headrace.storage.inspect import ChunkFiles
from headrace.storage.metadata import rows as r
from tests.unit.segmentstore.inspection.logs import (
    BLOCK,
    INCARNATION,
    chunk_of,
    store_segment,
    write_chunk,
)


def name_of(number, offset):
    return f"demo/s.5.E-1-O-{offset}.{INCARNATION}{number:024x}"


class Store:
    """One segment of three chunks, one of them with a full group of checksums, and a run of garbage."""

    def __init__(self, directory):
        self.contents = [b"a" * 20, b"b" * (BLOCK * r.CHECKSUM_GROUP_BLOCKS + 5), b"c" * 9]
        self.files = ChunkFiles(str(directory), ReadOnlyFiles())
        self.directory = directory
        self.layout, self.rows = store_segment(self.files, "demo/s.5", *self.contents)
        self.chunks = [chunk for chunk, _ in walk_chunks(self.layout, self.rows.get)]
        self.rows[r.INCARNATION_KEY] = r.encode_incarnation_row(INCARNATION)
        garbage, _ = chunk_of(name_of(9, 0), b"old")
        put_chunk_row(self.rows, garbage, "")
        self.rows[r.garbage_key(0)] = r.encode_garbage_row(r.GarbageRow(garbage.name, 1))

    def write(self, name, content):
        return write_chunk(self.files, name, content)

    def check(self, *, deep=True, epoch=1, missing=0, sealed=False, inactive=False):
        """Check against a log that knows the segment, less so many bytes, as active or as inactive."""
        state = ContainerState(0, epoch, 10)
        length = sum(map(len, self.contents)) - missing
        segment = SegmentState(5, "demo/s", durable_length=length, accepted_length=length, sealed=sealed)
        if not inactive:
            state.by_id[5] = state.by_name["demo/s"] = segment
        state.storage_rows = dict(self.rows)
        others = {5: SegmentFacts(0, length, sealed)} if inactive else {}
        report = CheckReport(0, epoch=epoch, complete=True)
        StorageCheck(state, self.files, report, deep=deep, inactive=others).run()
        return report


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path)


def test_a_store_without_damage_has_no_finding(store):
    report = store.check()
    assert report.findings == []
    assert report.chunks == 3
    assert report.verified_bytes == report.chunk_bytes == sum(map(len, store.contents))


def test_no_row_can_be_missing_unnoticed(store):
    for key in list(store.rows):
        kept = store.rows.pop(key)
        report = store.check()
        assert report.damaged or key == r.garbage_key(0), key
        assert report.findings, key
        store.rows[key] = kept


def test_no_bit_of_a_row_can_flip_unnoticed(store):
    for key, row in list(store.rows.items()):
        places = range(len(row)) if len(row) < 200 else range(0, len(row), 17)
        for at in places:
            store.rows[key] = row[:at] + bytes([row[at] ^ 1]) + row[at + 1 :]
            assert store.check(deep=at % 3 == 0 or key.startswith("k/")).damaged, (key, at)
        store.rows[key] = row


def test_no_byte_of_a_chunk_can_change_unnoticed(store):
    for chunk, content in zip(store.chunks, store.contents, strict=True):
        step = 1 if len(content) < 100 else 97
        for at in range(0, len(content), step):
            path = store.write(chunk.name, content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :])
            finding = next(iter(store.check().findings))
            assert finding.where == f"{path} at offset {at // BLOCK * BLOCK}"
        store.write(chunk.name, content)
    assert not store.check().findings


def test_a_chunk_cut_anywhere_is_too_short_and_more_than_committed_is_fine(store):
    chunk, content = store.chunks[0], store.contents[0]
    for length in range(len(content)):
        path = store.write(chunk.name, content[:length])
        (finding,) = store.check(deep=False).findings
        assert finding.where == f"{path} at offset {length}"
        assert "[0, 20) of segment 'demo/s.5'" in finding.what
    store.write(chunk.name, content + b"nobody committed this")
    assert not store.check().findings


def test_rows_of_a_later_epoch_than_the_log_are_found(store):
    (finding,) = store.check(epoch=0).findings
    assert "epoch 1" in finding.what
    assert "older log" in finding.advice


@pytest.mark.parametrize("inactive", [False, True])
def test_a_seal_and_bytes_that_only_storage_knows_of_are_found(store, inactive):
    assert not store.check(inactive=inactive, sealed=True).findings, "storage may not have it sealed yet"
    (finding,) = store.check(inactive=inactive, missing=1).findings
    assert finding.what == "storage holds 2082 bytes, the segment has 2081"
    assert finding.where == "segment 'demo/s.5'"
    store.layout.sealed = True
    store.layout.put_segment_row(store.rows)
    assert not store.check(inactive=inactive, sealed=True).findings
    (finding,) = store.check(inactive=inactive).findings
    assert (finding.severity, finding.what) == (Severity.DAMAGE, "sealed in storage, not in the log")
    assert finding.where == "segment 'demo/s.5'"


@pytest.mark.parametrize(
    ("name", "words"),
    [("demo/s.6", "neither log nor catalogue knows"), ("demo/s", "ends with no segment id")],
)
def test_a_stored_segment_that_nobody_knows_is_found(store, name, words):
    _, rows = store_segment(store.files, name)
    store.rows |= rows
    (finding,) = store.check().findings
    assert words in finding.what
    assert finding.where == f"segment {name!r}"


def test_objects_are_garbage_if_no_row_names_them(store):
    report = store.check()
    assert list(find_strays(store.files, [report], all_checked=True)) == []
    mine = store.write(name_of(77, 3), b"left")
    other = store.write(f"demo/s.5.E-1-O-0.ffffffff{1:024x}", b"foreign")
    found = {finding.where: finding for finding in find_strays(store.files, [report], all_checked=True)}
    assert set(found) == {str(mine), str(other)}
    assert all(finding.severity is Severity.GARBAGE for finding in found.values())
    # Of another container, perhaps: only who has seen all of them may judge.
    assert [f.where for f in find_strays(store.files, [report], all_checked=False)] == [str(mine)]
    # In a running server the row may be on its way.
    busy = find_strays(store.files, [report], all_checked=False, running=True)
    assert list(busy) == []
    report.epoch = 2
    busy = find_strays(store.files, [report], all_checked=False, running=True)
    assert [finding.where for finding in busy] == [str(mine)]
    report.complete = False
    assert [f.where for f in find_strays(store.files, [report], all_checked=True)] == [str(mine)]
    # Its row may be one of those that cannot be read.
    report.rows_known = False
    assert list(find_strays(store.files, [report], all_checked=True)) == []


def test_objects_of_owners_that_the_log_never_had_say_that_it_is_an_older_one(store):
    report = store.check()
    later = store.write(f"demo/s.5.E-2-O-3.{INCARNATION}{1:024x}", b"acknowledged since")
    (finding,) = find_strays(store.files, [report], all_checked=True)
    assert (finding.severity, finding.where) == (Severity.DAMAGE, str(later))
    assert "of container epoch 2, but the log of container 0 knows owners up to 1" in finding.what
    assert not list(find_strays(store.files, [report], all_checked=True, running=True)), "a new owner's"


def test_what_rows_name_is_no_garbage_though_it_was_made_under_an_earlier_incarnation(store):
    report = store.check()
    report.incarnation = "89abcdef"
    assert not list(find_strays(store.files, [report], all_checked=True))
    left = store.write(name_of(77, 3), b"kept for ever")
    assert [f.where for f in find_strays(store.files, [report], all_checked=True)] == [str(left)]
    report.rows_known = False
    assert not list(find_strays(store.files, [report], all_checked=True))


class ClosedDirectory(OsFilesystem):
    """One directory that nobody may list."""

    closed = ""

    def listdir(self, path):
        if path == self.closed:
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return super().listdir(path)


def test_a_directory_that_cannot_be_read_is_damage_and_hides_no_other(store, tmp_path):
    report = store.check()
    mine = store.write(name_of(77, 3), b"left")
    (tmp_path / "aaa").mkdir()
    (tmp_path / "zzz").mkdir()
    files = ClosedDirectory()
    files.closed = str(tmp_path / "aaa")
    orphan, closed = find_strays(ChunkFiles(str(tmp_path), files), [report], all_checked=True)
    assert orphan.where == str(mine)
    assert (closed.severity, closed.where) == (Severity.DAMAGE, files.closed)
    assert "Permission denied" in closed.what


def test_what_a_mounted_volume_brings_along_is_no_damage(store, tmp_path):
    report = store.check()
    (tmp_path / "lost+found").mkdir()
    files = ClosedDirectory()
    files.closed = str(tmp_path / "lost+found")
    assert not list(find_strays(ChunkFiles(str(tmp_path), files), [report], all_checked=True))


def test_links_are_not_followed_but_that_of_the_root(store, tmp_path):
    mine = store.write(name_of(77, 3), b"left")
    (tmp_path / "demo" / "loop").symlink_to("..")
    (tmp_path / "demo" / "itself").symlink_to("itself")
    root = tmp_path.with_name("root")
    root.symlink_to(tmp_path)
    skipped = []
    found = [
        path for _, path in ChunkFiles(str(root), ReadOnlyFiles()).objects(lambda *it: skipped.append(it))
    ]
    assert f"{root}/{mine.relative_to(tmp_path)}" in found
    assert len(found) == len(set(found)) == 4
    assert skipped == [(f"{root}/demo/itself", None), (f"{root}/demo/loop", None)]
