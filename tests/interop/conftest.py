"""One durable server for the interop tests, or a whole cluster; each test has a scope of its own.

A cluster is tested by ``make soak``, and where ``INTEROP_SERVERS`` is ``cluster`` or ``both``.
"""

import itertools
import os

import pytest

from headrace.testing import LocalServer
from tests.effort import is_long
from tests.interop.cluster_server import ClusterServer

_numbers = itertools.count()
_STANDALONE, _CLUSTER = ["standalone"], ["cluster"]
_CHOICES = {"standalone": _STANDALONE, "cluster": _CLUSTER, "both": _STANDALONE + _CLUSTER}


def kinds():
    """Return what the tests run against, by the name of the kind of server."""
    return _CHOICES[os.environ.get("INTEROP_SERVERS") or ("both" if is_long() else "standalone")]


def running(kind, directory, environment=None):
    """Return a server of that kind, not started, as a context."""
    return (ClusterServer if kind == "cluster" else LocalServer)(directory, environment=environment)


@pytest.fixture(scope="session", params=kinds())
def server(request, tmp_path_factory):
    with running(request.param, tmp_path_factory.mktemp("interop")) as made:
        yield made
        assert made.stop() == 0


@pytest.fixture
def scope(server):
    return f"scope{next(_numbers)}"
