"""A store belongs to one system; a server that is not of it writes nothing there."""

import pytest

from headrace.errors import DataCorruptionError, InvalidArgumentError, StorageWriteError
from headrace.storage.identity_format import IDENTITY_NAME, encode_identity
from headrace.storage.providers.memory import MemoryChunkProvider
from headrace.storage.store_identity import claim_identity, read_identity
from headrace.testing.storage_faults import Fault, FaultyChunkProvider

OURS, OTHER = "0" * 32, "f" * 32


@pytest.fixture
def store():
    return MemoryChunkProvider(supports_append=False)


async def claim(store, *, is_new):
    await claim_identity(store, "s3://b/p", OURS, is_new=is_new)


async def test_a_new_directory_makes_the_identity_of_an_empty_store_and_finds_it_again(store):
    assert await read_identity(store) is None
    await store.create("_system/proof-0", [b"left by a proof"])
    await claim(store, is_new=True)
    assert await read_identity(store) == OURS
    await store.create("c0/x", [b"a chunk"])
    await claim(store, is_new=True)  # the first start died here
    await claim(store, is_new=False)


@pytest.mark.parametrize("name", ["c0/x", "photos/1.jpg", "_system/containers/metadata_0.1.E-1-O-0.0"])
async def test_a_store_with_objects_of_others_is_refused(store, name):
    await store.create(name, [b"x"])
    with pytest.raises(InvalidArgumentError, match=r"s3://b/p is not empty.*another prefix"):
        await claim(store, is_new=True)
    assert set(store.objects) == {name}


async def test_another_system_is_refused(store):
    await store.create(IDENTITY_NAME, [encode_identity(OTHER)])
    with pytest.raises(InvalidArgumentError, match=r"another system.*another prefix; rebuild it"):
        await claim_identity(store, "s3://b/p", OURS, "rebuild it", is_new=True)
    with pytest.raises(DataCorruptionError, match=r"another system.*elsewhere: name their store"):
        await claim(store, is_new=False)
    assert await read_identity(store) == OTHER


async def test_a_used_directory_makes_no_identity(store):
    with pytest.raises(DataCorruptionError, match="not the store of this data directory, or was emptied"):
        await claim(store, is_new=False)
    assert not store.objects


async def test_an_identity_that_another_server_is_just_writing_is_no_damage(store):
    """Stores of a cluster start at the same time, and a file is there before its bytes are."""

    class BeingWritten(MemoryChunkProvider):
        reads = 0

        async def read(self, name, offset, length):
            self.reads += 1
            found = await store.read(name, offset, length)
            return b"" if self.reads == 1 else found

        info = staticmethod(store.info)

    await store.create(IDENTITY_NAME, [encode_identity(OURS)])
    await claim(BeingWritten(), is_new=True)


async def test_of_two_servers_one_wins(store):
    class Slow(MemoryChunkProvider):
        async def create(self, name, *args, **options):
            await store.create(IDENTITY_NAME, [encode_identity(OTHER)])
            await store.create(name, *args, **options)

        info, read, list = store.info, store.read, store.list

    with pytest.raises(InvalidArgumentError, match="another system"):
        await claim(Slow(), is_new=True)


async def test_a_lost_answer_is_no_other_system(store):
    faulty = FaultyChunkProvider(store)
    faulty.inject = lambda call: Fault.LOSE_REPLY if call.kind == "create" else None
    with pytest.raises(StorageWriteError):
        await claim(faulty, is_new=True)
    await claim(faulty, is_new=True)


async def test_an_identity_that_was_cut_short_is_made_anew_by_a_new_directory_only(store):
    await store.create(IDENTITY_NAME, [b"\1"])
    with pytest.raises(DataCorruptionError):
        await claim(store, is_new=False)
    await claim(store, is_new=True)
    assert await read_identity(store) == OURS
    store.objects[IDENTITY_NAME][3] ^= 1
    with pytest.raises(DataCorruptionError, match="checksum"):
        await claim(store, is_new=True)
