"""What tests of clients run against: a standalone server, a cluster of processes, or one after the other.

``SERVERS_TESTED`` says which: ``standalone``, which it is by default, ``cluster``, ``both``, as in
``make soak``, or a standalone server with its log elsewhere: ``bucket``, with its chunks in a bucket of
versitygw, or ``bookies``, on three of them. A test asks for the fixture ``server_kind``, and for a server of
that kind.
"""

import atexit
import itertools
import os
import tempfile
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path

from headrace.testing import LocalServer
from tests.bookies.servers import BookKeeper
from tests.cluster_server import ClusterServer
from tests.effort import is_long
from tests.secure_server import SecureCluster, SecureServer
from tests.stores.servers import SERVERS

STANDALONE, CLUSTER, BUCKET, BOOKIES = "standalone", "cluster", "bucket", "bookies"
_CHOICES = {
    **{kind: [kind] for kind in (STANDALONE, CLUSTER, BUCKET, BOOKIES)},
    "both": [STANDALONE, CLUSTER],
}


def kinds():
    """Return what the tests run against, by the name of the kind of server."""
    return _CHOICES[os.environ.get("SERVERS_TESTED") or ("both" if is_long() else STANDALONE)]


def running(kind, directory, *, environment=None, users=None):
    """Return a server of that kind, not started, as a context. Durable."""
    makers = {STANDALONE: LocalServer, CLUSTER: ClusterServer, BUCKET: _in_bucket, BOOKIES: _on_bookies}
    return makers[kind](directory, environment=environment, users=users)


def running_secure(kind, directory):
    """Return one with certificates and the users of ``tests.secure_server``, not started, as a context."""
    return (SecureCluster if kind == CLUSTER else SecureServer)(directory)


@contextmanager
def _in_bucket(directory, *, environment=None, users=None):
    directory.mkdir(parents=True, exist_ok=True)
    with SERVERS["versitygw"].start(directory) as store:
        places = ("--log", store.uri("log"), "--storage", store.uri("chunks"))
        environment = {**store.environment, **(environment or {})}
        with LocalServer(directory / "server", *places, environment=environment, users=users) as server:
            yield server


_systems = map("served{}".format, itertools.count())


@cache
def _bookkeeper():
    """Return bookies for all tests of this process; they end with it."""
    stack = ExitStack()
    atexit.register(stack.close)
    directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="bookies-"))
    return stack.enter_context(BookKeeper(Path(directory) / "run"))


def _on_bookies(directory, *, environment=None, users=None):
    log = _bookkeeper().uri(f"?system={next(_systems)}")
    return LocalServer(directory, "--log", log, environment=environment, users=users)
