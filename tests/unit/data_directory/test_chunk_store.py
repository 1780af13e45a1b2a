"""A server starts on the store of its data directory, and on no other."""

import asyncio
import json
import logging
from dataclasses import replace

import pytest

from headrace.data_directory.chunk_store import (
    WAITS_S,
    ChunkStore,
    StoreClaim,
    claim_store,
    facts_of,
    find_store,
    note_store,
)
from headrace.data_directory.record import FILE_NAME, check_data_directory
from headrace.errors import (
    DataCorruptionError,
    InvalidArgumentError,
    PreconditionError,
    StorageFullError,
    StorageReadError,
    StorageWriteError,
    UnsupportedError,
)
from headrace.processes.config import StandaloneConfig
from headrace.runtime.context import Runtime, system_runtime
from headrace.runtime.supervisor import Supervisor
from headrace.storage.chunks.chunk_names import chunk_name
from headrace.storage.identity_format import IDENTITY_NAME
from headrace.storage.providers.location import StorageLocation
from headrace.storage.providers.memory import MemoryChunkProvider
from headrace.testing.simulation import simulate

URI = "s3://bucket/prefix?endpoint=http://127.0.0.1:1"
RUNTIME: Runtime = system_runtime()
CHUNK = chunk_name(0, "s/t/0.#epoch.0.5", 1, 0, "0" * 8, bytes(12))


def find(directory, **settings):
    return find_store(StandaloneConfig(data_dir=str(directory), **settings), RUNTIME)


def record(directory):
    return json.loads((directory / FILE_NAME).read_text())


def test_a_directory_remembers_its_store_and_its_system(tmp_path):
    store = find(tmp_path, storage=URI)
    assert (store.root, store.is_recorded, store.belongs_to_one) == (None, False, True)
    check_data_directory(RUNTIME.filesystem, str(tmp_path), 2, facts_of(store, str(tmp_path)))
    assert record(tmp_path) == {"format": 2, "containers": 2, "system": store.system, "storage": URI}
    again = find(tmp_path)
    assert (str(again.location), again.system, again.is_recorded) == (URI, store.system, True)
    moved = find(tmp_path, storage="s3://other/prefix")
    assert (moved.system, moved.is_recorded) == (store.system, False)
    note_store(RUNTIME.filesystem, moved, str(tmp_path), 2)
    assert str(find(tmp_path).location) == "s3://other/prefix"


def test_without_a_choice_chunks_are_in_the_directory(tmp_path):
    store = find(tmp_path)
    assert (store.root, store.belongs_to_one) == (f"{tmp_path}/chunks", True)
    check_data_directory(RUNTIME.filesystem, str(tmp_path), 2, facts_of(store, str(tmp_path)))
    assert record(tmp_path) == {"format": 2, "containers": 2, "system": store.system}
    other = find(tmp_path, storage="file:///mnt/chunks")
    assert (other.root, other.system) == ("/mnt/chunks", store.system)
    note_store(RUNTIME.filesystem, other, str(tmp_path), 2)
    assert find(tmp_path).root == "/mnt/chunks"
    note_store(RUNTIME.filesystem, find(tmp_path, storage=f"file://{tmp_path}/chunks"), str(tmp_path), 2)
    assert "storage" not in record(tmp_path)


def test_an_earlier_directory_gets_an_id(tmp_path):
    check_data_directory(RUNTIME.filesystem, str(tmp_path), 2)
    store = find(tmp_path)
    note_store(RUNTIME.filesystem, store, str(tmp_path), 2)
    assert find(tmp_path).system == store.system


@pytest.mark.parametrize("system", ["", "0" * 31, "G" * 32, 7, ["0" * 32]])
def test_an_id_that_is_none_is_refused(tmp_path, system):
    content = {"format": 2, "containers": 2, "system": system}
    (tmp_path / FILE_NAME).write_text(json.dumps(content))
    with pytest.raises(DataCorruptionError, match="id of a system"):
        find(tmp_path)


def test_a_choice_that_is_none_is_refused_before_anything_is_touched(tmp_path):
    with pytest.raises(InvalidArgumentError, match="storage URI"):
        StandaloneConfig(storage="bucket").check()
    with pytest.raises(InvalidArgumentError, match="leave out storage"):
        StandaloneConfig(storage=URI, in_memory=True).check()


def store_of(*, is_new=True, is_recorded=False, unmade=(0, 1)):
    location = StorageLocation.parse(URI)
    return ChunkStore(location, "0" * 32, is_new=is_new, is_recorded=is_recorded, unmade=unmade)


async def test_a_store_is_proved_and_claimed(tmp_path):
    provider = MemoryChunkProvider(supports_append=False)
    await claim_store(provider, store_of(), str(tmp_path), RUNTIME)
    assert set(provider.objects) == {IDENTITY_NAME}
    await claim_store(provider, store_of(), str(tmp_path), RUNTIME)
    await provider.create(CHUNK, [b"acknowledged"])
    await claim_store(provider, store_of(is_new=False, unmade=()), str(tmp_path), RUNTIME)
    for unmade in ((1,), (0, 1)):
        with pytest.raises(DataCorruptionError, match=r"missing, and its store has.*storage rebuild"):
            await claim_store(provider, store_of(is_new=len(unmade) == 2, unmade=unmade), "d", RUNTIME)
    assert set(provider.objects) == {IDENTITY_NAME, CHUNK}


async def test_a_directory_of_files_gets_an_identity_unless_it_is_anothers(tmp_path):
    provider = MemoryChunkProvider()
    await provider.create(CHUNK, [b"of an earlier release"])
    store = ChunkStore(StorageLocation.parse(f"file://{tmp_path}/chunks"), "0" * 32)
    for _ in range(2):
        await claim_store(provider, store, str(tmp_path), RUNTIME)
    assert set(provider.objects) == {IDENTITY_NAME, CHUNK}
    with pytest.raises(DataCorruptionError, match="another system"):
        await claim_store(provider, replace(store, system="1" * 32), str(tmp_path), RUNTIME)
    provider.objects[IDENTITY_NAME] = bytearray()  # the power failed while it was made
    await claim_store(provider, store, str(tmp_path), RUNTIME)
    assert len(provider.objects[IDENTITY_NAME]) > 0


async def test_a_store_that_overwrites_is_refused(tmp_path):
    class Overwriting(MemoryChunkProvider):
        async def create(self, name, *args, **options):
            await self.delete(name)
            await super().create(name, *args, **options)

    provider = Overwriting()
    with pytest.raises(UnsupportedError, match="overwritten"):
        await claim_store(provider, store_of(), str(tmp_path), RUNTIME)
    assert not provider.objects


class Claim:
    """Fails as often as there are errors, or waits for ever."""

    def __init__(self, *errors):
        self.errors = list(errors)
        self.done = False

    async def __call__(self):
        if self.errors:
            error = self.errors.pop(0)
            if error is None:
                await asyncio.Event().wait()
            raise error
        self.done = True


async def wait(claim, store):
    supervisor = Supervisor("test")
    began = asyncio.get_running_loop().time()
    try:
        await StoreClaim(claim, store, supervisor).wait()
        return asyncio.get_running_loop().time() - began, supervisor
    except BaseException:
        await supervisor.stop()
        raise


@pytest.mark.parametrize("facts", [{}, {"is_recorded": True}, {"is_new": False}], ids=str)
@pytest.mark.parametrize("kind", [StorageReadError, StorageWriteError])
def test_a_store_has_to_answer_before_its_first_use(facts, kind):
    async def scenario(_):
        with pytest.raises(PreconditionError, match="nothing was started: there is no bucket 'b'"):
            await wait(Claim(kind("there is no bucket 'b'")), store_of(**facts))

    simulate(0, scenario)


def test_a_first_start_waits_for_space():
    async def scenario(_):
        claim = Claim(*[StorageFullError("no space")] * 100)
        _, supervisor = await wait(claim, store_of())
        assert claim.done
        await supervisor.stop()

    simulate(0, scenario)


def test_a_later_start_goes_on_and_asks_again(caplog):
    async def scenario(_):
        caplog.set_level(logging.INFO)
        claim = Claim(*[StorageReadError("away"), StorageFullError("no space")] * 50)
        took_s, supervisor = await wait(claim, store_of(is_new=False, is_recorded=True))
        assert (took_s, claim.done) == (WAITS_S, False)
        await asyncio.sleep(600)
        assert claim.done
        assert "answers" in caplog.messages[-1]
        await supervisor.stop()

    simulate(0, scenario)


def test_a_store_that_turns_out_to_be_wrong_is_named(caplog):
    async def scenario(_):
        claim = Claim(*[StorageReadError("away")] * 100, DataCorruptionError("another's"))
        _, supervisor = await wait(claim, store_of(is_new=False, is_recorded=True))
        await asyncio.sleep(600)
        assert caplog.messages[-1] == f"{URI} must not be used, stop this server: another's"
        await supervisor.stop()

    simulate(0, scenario)


def test_a_wrong_store_is_refused_at_once():
    async def scenario(_):
        for is_recorded in (True, False):
            claim = Claim(InvalidArgumentError("of others"))
            with pytest.raises(InvalidArgumentError):
                await wait(claim, store_of(is_new=False, is_recorded=is_recorded))

    simulate(0, scenario)


def test_a_start_that_is_given_up_leaves_no_task():
    async def scenario(_):
        supervisor = Supervisor("test")
        waiting = asyncio.ensure_future(StoreClaim(Claim(None), store_of(), supervisor).wait())
        await asyncio.sleep(1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await supervisor.stop()

    simulate(0, scenario)
