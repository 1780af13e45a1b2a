"""The kit, faults and the proof of a store on real servers, as far as they are installed.

Those that take longer than a second to start are part of ``make stores``, the others of ``make test``.
"""

import itertools
import os

import pytest

from headrace.errors import UnsupportedError
from headrace.runtime.entropy import SystemEntropy
from headrace.storage.providers.store_proof import PROOF_PREFIX
from headrace.storage.providers.stores import prove_store
from tests.stores.faults import StoreFaults
from tests.stores.providers import StoreContract, provider_at, wrapped
from tests.stores.servers import SERVERS, UnavailableError

pytestmark = pytest.mark.cluster

EVERY = os.environ.get("HEADRACE_STORES") == "all"
GOOD = sorted(set(SERVERS) - {"s3proxy"})
_places = itertools.count()


@pytest.fixture(scope="module")
def started(request, tmp_path_factory):
    """A server that runs, by its name."""
    name = request.param
    if not EVERY and not SERVERS[name].quick:
        pytest.skip(f"{name} takes a while to start: make stores")
    try:
        with SERVERS[name].start(tmp_path_factory.mktemp(name)) as running:
            yield running
    except UnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture
def server(started, monkeypatch):
    for variable, value in started.environment.items():
        monkeypatch.setenv(variable, value)
    return started


def on(names):
    return pytest.mark.parametrize("started", names, indirect=True, scope="module")


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


@on(["s3proxy"])
async def test_a_store_that_overwrites_is_refused(server):
    provider = provider_at(server.uri("proved"))
    with pytest.raises(UnsupportedError, match="overwritten"):
        await prove_store(provider, SystemEntropy())
    assert [each async for page in provider.list(PROOF_PREFIX) for each in page] == []
