"""Providers on a server of a test, and the kit for them."""

import pytest

from headrace.runtime.entropy import SystemEntropy
from headrace.storage.providers.location import StorageLocation
from headrace.storage.providers.objects.object_store import ObjectStoreChunkProvider, ObjectStoreConfig
from headrace.storage.providers.wrappers.measured import MeasuredChunkProvider
from headrace.storage.providers.wrappers.retrying import RetryingChunkProvider
from headrace.testing.conformance.chunk_provider import ChunkProviderContract

pytest.importorskip("opendal")

TIMEOUT_S = 60.0


def provider_at(uri, **config):
    """Return the provider of a place, without wrappers."""
    return ObjectStoreChunkProvider(StorageLocation.parse(uri), SystemEntropy(), ObjectStoreConfig(**config))


def wrapped(provider):
    """Return the provider as a container has it."""
    return RetryingChunkProvider(MeasuredChunkProvider(provider), TIMEOUT_S)


class StoreContract(ChunkProviderContract):
    """The kit below a prefix of its own in each test: ``place`` returns the URI of one."""

    def place(self):
        raise NotImplementedError

    _uri = None

    async def make(self):
        self._uri = self._uri or self.place()
        return provider_at(self._uri)
