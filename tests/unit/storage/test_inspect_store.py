"""Chunk objects of a store, seen by code that does not wait."""

import asyncio

import pytest

from headrace.errors import ChecksumMismatchError, DataCorruptionError, StorageReadError
from headrace.storage.inspect_store import StoreObjects
from headrace.storage.providers.memory import MemoryChunkProvider
from headrace.storage.providers.wrappers.wrapper import ChunkProviderWrapper
from tests.unit.segmentstore.inspection.logs import BLOCK, chunk_of

pytestmark = pytest.mark.real_loop  # it brings a loop of its own

LONG = bytes(range(256)) * 40


class Counted(ChunkProviderWrapper):
    """Counts requests; answers none while ``silent``."""

    def __init__(self):
        super().__init__(MemoryChunkProvider())
        self.asked = []
        self.silent = False

    def _ask(self, what):
        if self.silent:
            raise StorageReadError("no answer")
        self.asked.append(what)

    async def info(self, name):
        self._ask("info")
        return await self.provider.info(name)

    async def read(self, name, offset, length):
        self._ask("read")
        return await self.provider.read(name, offset, length)

    async def list(self, prefix=""):
        self._ask("list")
        async for page in self.provider.list(prefix):
            yield page


class Place:
    def __init__(self, run):
        self.provider = Counted()
        self.store = StoreObjects("s3://bucket/prefix", self.provider, run)
        self.rows = {}

    @property
    def objects(self):
        return self.provider.provider.objects

    def add(self, name, content):
        chunk, groups = chunk_of(name, content)
        self.objects[name] = bytearray(content)
        self.rows |= groups
        return chunk


@pytest.fixture
def place():
    with asyncio.Runner() as runner:
        yield Place(runner.run)


def test_lengths_come_from_one_listing_and_what_may_be_newer_is_asked_for(place):
    place.add("a", b"12345")
    place.store.look_ahead()
    place.add("b", b"123")
    place.objects["a"] += b"67"
    assert place.store.find_length("a", 5) == 5
    assert place.provider.asked == ["list"]
    assert place.store.find_length("a", 6) == 7
    assert place.store.find_length("b") == 3
    assert place.store.find_length("c") is None
    assert dict(place.store.objects(print)) == {"a": "s3://bucket/prefix/a"}
    place.store.look_ahead()
    assert sorted(name for name, _ in place.store.objects(print)) == ["a", "b"]


@pytest.mark.parametrize("begin", [0, 1, BLOCK, 5 * BLOCK + 3, len(LONG) - 1])
def test_pieces_are_all_bytes_from_the_block_asked_for(place, begin):
    chunk = place.add("a", LONG)
    pieces = [(offset, bytes(data)) for offset, data in place.store.pieces(chunk, place.rows.get, begin)]
    assert pieces[0][0] == begin // BLOCK * BLOCK
    assert b"".join(data for _, data in pieces) == LONG[pieces[0][0] :]
    assert all(LONG[offset : offset + len(data)] == data for offset, data in pieces)


def test_of_many_chunks_each_is_verified_by_itself(place):
    names = [f"chunk-{number:03}" for number in range(300)]
    chunks = [place.add(name, LONG[:100]) for name in names]
    place.objects[names[7]][33] ^= 1
    del place.objects[names[8]]
    del place.objects[names[270]][50:]
    verified = list(place.store.verify_all(chunks, place.rows.get))
    assert [chunk for chunk, _ in verified] == chunks
    wrong = {chunk.name: error for chunk, error in verified if error is not None}
    assert {name: type(error) for name, error in wrong.items()} == {
        names[7]: ChecksumMismatchError,
        names[8]: FileNotFoundError,
        names[270]: StorageReadError,
    }
    assert wrong[names[7]].offset == 32
    with pytest.raises(ChecksumMismatchError):
        place.store.verify(chunks[7], place.rows.get)


def test_missing_checksums_are_damage(place):
    chunk = place.add("a", LONG)
    place.rows.clear()
    with pytest.raises(DataCorruptionError):
        place.store.verify(chunk, place.rows.get)


def test_a_store_that_does_not_answer_is_no_missing_object(place):
    chunk = place.add("a", LONG)
    place.provider.silent = True
    with pytest.raises(OSError, match="no answer"):
        place.store.find_length("a")
    with pytest.raises(OSError, match="no answer"):
        place.store.verify(chunk, place.rows.get)
    with pytest.raises(StorageReadError):
        place.store.look_ahead()
