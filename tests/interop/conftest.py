"""One server for the interop tests, which ends with the last one; each test has a scope of its own."""

import itertools

import pytest

from tests.servers import running

_numbers = itertools.count()


@pytest.fixture(scope="package")
def server(server_kind, tmp_path_factory):
    with running(server_kind, tmp_path_factory.mktemp("interop")) as made:
        yield made
        assert made.stop() == 0


@pytest.fixture
def scope(server):
    return f"scope{next(_numbers)}"
