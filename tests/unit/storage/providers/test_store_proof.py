"""A store is proved before it is used: one that overwrites, forgets or hides objects is refused."""

import pytest

from headrace.errors import StorageWriteError, UnsupportedError
from headrace.runtime.entropy import SeededEntropy
from headrace.storage.providers.memory import MemoryChunkProvider
from headrace.storage.providers.objects.store_proof import prove_store
from headrace.testing.storage_faults import Fault, FaultyChunkProvider


class OverwritingStore(MemoryChunkProvider):
    async def create(self, name, buffers=(), beside=None):
        self.objects.pop(name, None)
        await super().create(name, buffers, beside)


class DestroyingStore(MemoryChunkProvider):
    """It refuses the second, and took its content nevertheless."""

    async def create(self, name, buffers=(), beside=None):
        try:
            await super().create(name, buffers, beside)
        finally:
            self.objects[name][:] = b"".join(buffers)[:5]


class HidingStore(MemoryChunkProvider):
    """It does not list names that are long."""

    async def list(self, prefix=""):
        if len(prefix) < 1000:
            async for page in super().list(prefix):
                yield page


async def test_a_good_store_is_left_as_it_was():
    provider = MemoryChunkProvider(supports_append=False)
    await provider.create("c", [b"x"])
    await prove_store(provider, SeededEntropy(1))
    await prove_store(provider, SeededEntropy(1))
    assert list(provider.objects) == ["c"]


@pytest.mark.parametrize(
    ("store", "reason"),
    [
        (OverwritingStore, "overwritten"),
        (DestroyingStore, "changed"),
        (HidingStore, "list"),
    ],
)
async def test_a_bad_store_is_refused_with_the_reason_and_cleaned(store, reason):
    provider = store()
    with pytest.raises(UnsupportedError, match=reason):
        await prove_store(provider, SeededEntropy(1))
    assert provider.objects == {}


async def test_a_store_that_does_not_answer_proves_nothing():
    provider = FaultyChunkProvider(MemoryChunkProvider(), lambda call: Fault.LOSE_REPLY)
    with pytest.raises(StorageWriteError):
        await prove_store(provider, SeededEntropy(1))
