"""What tests of clients run against: a standalone server, a cluster of processes, or one after the other.

``SERVERS_TESTED`` says which: ``standalone``, which it is by default, ``cluster``, ``both``, as in
``make soak``, or ``bucket``: a standalone server whose log and chunks are in a bucket of versitygw. A test
asks for the fixture ``server_kind``, and for a server of that kind.
"""

import os
from contextlib import contextmanager

from headrace.testing import LocalServer
from tests.cluster_server import ClusterServer
from tests.effort import is_long
from tests.secure_server import SecureCluster, SecureServer
from tests.stores.servers import SERVERS

STANDALONE, CLUSTER, BUCKET = "standalone", "cluster", "bucket"
_CHOICES = {
    **{kind: [kind] for kind in (STANDALONE, CLUSTER, BUCKET)},
    "both": [STANDALONE, CLUSTER],
}


def kinds():
    """Return what the tests run against, by the name of the kind of server."""
    return _CHOICES[os.environ.get("SERVERS_TESTED") or ("both" if is_long() else STANDALONE)]


def running(kind, directory, *, environment=None, users=None):
    """Return a server of that kind, not started, as a context. Durable."""
    return {STANDALONE: LocalServer, CLUSTER: ClusterServer, BUCKET: _in_bucket}[kind](
        directory, environment=environment, users=users
    )


def running_secure(kind, directory):
    """Return one with certificates and the users of ``tests.secure_server``, not started, as a context."""
    return {STANDALONE: SecureServer, CLUSTER: SecureCluster, BUCKET: SecureServer}[kind](directory)


@contextmanager
def _in_bucket(directory, *, environment=None, users=None):
    directory.mkdir(parents=True, exist_ok=True)
    with SERVERS["versitygw"].start(directory) as store:
        places = ("--log", store.uri("log"), "--storage", store.uri("chunks"))
        environment = {**store.environment, **(environment or {})}
        with LocalServer(directory / "server", *places, environment=environment, users=users) as server:
            yield server
