"""The kit, faults and the proof of a store on real servers, as far as they are installed.

Those that take longer than a second to start are part of ``make stores``, the others of ``make test``.
"""

import itertools

import pytest

from headrace.errors import StorageReadError, StorageWriteError, UnsupportedError
from headrace.runtime.context import system_runtime
from headrace.runtime.entropy import SystemEntropy
from headrace.storage.providers.objects.store_proof import PROOF_PREFIX
from headrace.storage.providers.stores import prove_store
from headrace.testing.conformance.wal import LogsContract, WalContract
from headrace.wal.objects.object_wal import ObjectWal
from headrace.wal.stores import LogBucket, make_logs
from tests.stores.faults import StoreFaults
from tests.stores.providers import StoreContract, provider_at, wrapped
from tests.stores.servers import GOOD, on
from tests.unit.wal.world import SMALL

pytestmark = pytest.mark.cluster

_places = itertools.count()


class OnServer:
    @pytest.fixture(autouse=True)
    def _server(self, server):
        self.server = server

    def place(self):
        return self.server.uri(f"t{next(_places)}")


@on(GOOD)
class TestStore(OnServer, StoreContract):
    pass


@on(GOOD)
class TestStoreAsAContainerHasIt(OnServer, StoreContract):
    async def make(self):
        return wrapped(await super().make())


@on(GOOD)
class TestFaultsBeforeAStore(OnServer, StoreFaults):
    @property
    def creates_by_one_request(self):
        return not self.server.bucket.startswith("gs:")


@on(GOOD)
async def test_a_good_store_is_proved_and_left_empty(server):
    provider = provider_at(server.uri("proved"))
    await prove_store(provider, SystemEntropy())
    assert [each async for page in provider.list() for each in page] == []


@on(GOOD)
async def test_a_bucket_that_is_missing_is_not_an_object_that_is(server):
    provider = provider_at(server.uri("p").replace(server.bucket, server.bucket + "-2"))
    with pytest.raises(StorageReadError, match="there is no bucket"):
        await provider.read("c", 0, 1)
    with pytest.raises(StorageReadError, match="there is no bucket"):
        await provider.info("c")
    with pytest.raises(StorageReadError, match="there is no bucket"):
        [page async for page in provider.list()]
    with pytest.raises(StorageWriteError, match="there is no bucket"):
        await provider.create("c", [b"x"])


@on(["s3proxy"])
async def test_a_store_that_overwrites_is_refused(server):
    provider = provider_at(server.uri("proved"))
    with pytest.raises(UnsupportedError, match="overwritten"):
        await prove_store(provider, SystemEntropy())
    assert [each async for page in provider.list(PROOF_PREFIX) for each in page] == []


@on(GOOD)
class TestLog(OnServer, WalContract):
    @pytest.fixture(autouse=True)
    async def _store(self, server):
        self.store = provider_at(server.uri(f"log{next(_places)}"))
        yield
        await self.store.close()

    def make_wal(self):
        return ObjectWal(self.store, 3, SystemEntropy(), SMALL)


@on(GOOD)
class TestLogs(OnServer, LogsContract):
    @pytest.fixture(autouse=True)
    async def _made(self, server):
        self.uri, self.made = server.uri(f"logs{next(_places)}"), []
        yield
        for logs in self.made:
            await logs.close()

    def make_logs(self):
        place = LogBucket(self.uri, lambda: provider_at(self.uri))
        self.made.append(make_logs("", system_runtime(), SMALL, place=place))
        return self.made[-1]
