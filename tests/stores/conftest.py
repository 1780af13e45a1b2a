"""Fixtures of the tests of stores."""

import pytest

from tests.stores.hdfs_server import HdfsServer, why_not
from tests.stores.servers import EVERY, SERVERS, UnavailableError


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
    """The server, with the credentials for it in the environment."""
    for variable, value in started.environment.items():
        monkeypatch.setenv(variable, value)
    return started


@pytest.fixture
def quick_pauses(monkeypatch):
    """Nothing waits between attempts."""
    monkeypatch.setattr("headrace.storage.providers.objects.creation.PAUSES_S", (0.0, 0.0, 0.0))
    monkeypatch.setattr("headrace.storage.providers.wrappers.retrying.PAUSES_S", (0.0, 0.0))


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory):
    """A name node and a data node."""
    if why_not():
        pytest.skip(why_not())
    server = HdfsServer(tmp_path_factory.mktemp("hdfs"))
    try:
        server.start()
        yield server
    finally:
        server.stop()
