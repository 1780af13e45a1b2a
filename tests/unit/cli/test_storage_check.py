"""``headrace storage check``: the whole store against all rows, whichever store it is."""

import json

import pytest

from headrace.cli.inspect import chunk_access
from headrace.cli.main import main
from headrace.runtime.read_only_files import ReadOnlyFiles
from headrace.segmentstore.operations import catalogue as ops
from headrace.segmentstore.state.metadata_checkpoint import encode_segment_row
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.storage.identity_format import encode_identity
from headrace.storage.inspect import ChunkFiles
from headrace.storage.metadata import rows as r
from headrace.storage.providers.memory import MemoryChunkProvider
from tests.unit.segmentstore.inspection.logs import INCARNATION, checkpoint, make_log, store_segment

pytestmark = pytest.mark.real_loop  # the command brings a loop of its own

CONTENT = b"content" * 10


def name(epoch=1, incarnation=INCARNATION, number=77):
    return f"demo/s.5.E-{epoch}-O-0.{incarnation}{number:024x}"


class Place:
    """A stopped server with one segment of two chunks, in files or in a store."""

    def __init__(self, directory, store, capfd):
        self.data = directory / "data"
        self.files = ChunkFiles(str(self.data / "chunks"), ReadOnlyFiles())
        self.store = store
        self.capfd = capfd
        layout, self.rows = store_segment(self.files, "demo/s.5", CONTENT, CONTENT)
        self.first, self.last = layout.first_chunk, layout.last.name
        self.rows[r.INCARNATION_KEY] = r.encode_incarnation_row(INCARNATION)

    async def make(self):
        length = 2 * len(CONTENT)
        state = SegmentState(5, "demo/s", durable_length=length, accepted_length=length)
        await make_log(
            self.data / "wal" / "container-0",
            [*checkpoint(encode_segment_row(state), storage_rows=self.rows), ops.StorageRows(9)],
        )
        record = {"format": 2, "containers": 1}
        if self.store is not None:
            record["storage"] = "s3://bucket/prefix"
            for number in (self.first, self.last):
                self.put(number, CONTENT)
            self.files = None
        (self.data / "headrace.json").write_text(json.dumps(record))

    def put(self, chunk, content):
        if self.store is not None:
            self.store.objects[chunk] = bytearray(content)
        else:
            path = self.path(chunk)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def drop(self, chunk):
        if self.store is not None:
            del self.store.objects[chunk]
        else:
            self.path(chunk).unlink()

    def path(self, chunk):
        return self.data.__class__(self.files.path(chunk))

    def where(self, chunk):
        return f"s3://bucket/prefix/{chunk}" if self.store is not None else self.files.path(chunk)

    def check(self, *words):
        code = main(["storage", "check", "--data-dir", str(self.data), *words])
        captured = self.capfd.readouterr()
        return code, captured.out, captured.err

    def document(self, *words):
        code, out, _ = self.check("--json", *words)
        return code, json.loads(out)["storage"]


@pytest.fixture(params=["files", "store"])
async def place(request, tmp_path, capfd, monkeypatch):
    store = MemoryChunkProvider() if request.param == "store" else None
    if store is not None:
        monkeypatch.setattr(chunk_access, "make_provider", lambda *_, **__: store)
    place = Place(tmp_path, store, capfd)
    await place.make()
    return place


def test_a_whole_store_is_clean(place):
    code, out, _ = place.check("--deep")
    assert code == 0, out
    assert "2 objects: 2 named by rows: clean" in out
    assert f"({2 * len(CONTENT)} verified)" in out


def test_objects_that_nothing_needs_are_counted_and_are_no_damage(place):
    place.put(name(), b"left")
    place.put(name(incarnation="ffffffff"), b"foreign")
    place.put(place.last, CONTENT + b"torn")
    place.put("_system/identity", b"mine")
    place.put("_system/checkpoints/0/1-1.manifest", b"copy")
    code, found = place.document()
    assert code == 0
    assert (found["objects"], found["named"], found["checkpoints"]) == (6, 2, 1)
    assert found["longer"] == {"objects": 1, "bytes": 4}
    assert found["orphan"] == {"objects": 1, "bytes": 4}
    assert found["stranger"] == {"objects": 1, "bytes": 7}
    assert found["beside"] == {"objects": 2, "bytes": 8}
    _, out, _ = place.check()
    assert "nothing is damaged, only objects that nothing needs were found" in out
    assert f"| {place.where(name())} | do: nothing" in out


def test_a_missing_object_and_a_short_one_are_damage(place):
    place.drop(place.first)
    place.put(place.last, CONTENT[:5])
    code, out, err = place.check()
    assert (code, "2 findings" in err) == (6, True)
    assert (
        f"the chunk that holds [0, 70) of segment 'demo/s.5' is missing | {place.where(place.first)}" in out
    )
    assert f"has 5 bytes instead of 70 | {place.where(place.last)} at offset 5" in out


def test_only_a_deep_check_reads_what_is_stored(place):
    place.put(place.first, CONTENT[:-1] + b"X")
    assert place.check()[0] == 0
    code, out, _ = place.check("--deep", "--bytes-per-s", "1e9", "--requests-per-s", "1e6")
    assert code == 6
    assert f"fails its checksum | {place.where(place.first)} at offset 64" in out


def test_a_rate_of_nothing_is_refused(place):
    code, _, err = place.check("--bytes-per-s", "0")
    assert (code, "above zero" in err) == (2, True)


def test_another_place_may_be_named(place, tmp_path):
    code, out, _ = place.check("--storage", f"file://{tmp_path}/elsewhere")
    assert code == 6
    assert f"is missing | {tmp_path}/elsewhere/" in out


def test_a_store_of_others_is_not_called_damaged(place):
    if place.store is None:
        return  # files are recognised by their directory
    record = json.loads((place.data / "headrace.json").read_text())
    (place.data / "headrace.json").write_text(json.dumps(record | {"system": "ab" * 16}))
    elsewhere = ("--storage", "s3://bucket/other")
    code, _, err = place.check(*elsewhere)
    assert (code, "is not the store of" in err, "has no identity" in err) == (2, True, True)
    for system, expected in (("cd" * 16, 6), ("ab" * 16, 0)):
        place.put("_system/identity", encode_identity(system))
        assert place.check(*elsewhere)[0] == expected
