"""What tests of clients run against: a standalone server, a cluster of processes, or one after the other.

``SERVERS_TESTED`` says which: ``standalone``, which it is by default, ``cluster`` or ``both``, as in
``make soak``. A test asks for the fixture ``server_kind``, and for a server of that kind.
"""

import os

from headrace.testing import LocalServer
from tests.cluster_server import ClusterServer
from tests.effort import is_long
from tests.secure_server import SecureCluster, SecureServer

STANDALONE, CLUSTER = "standalone", "cluster"
_CHOICES = {STANDALONE: [STANDALONE], CLUSTER: [CLUSTER], "both": [STANDALONE, CLUSTER]}


def kinds():
    """Return what the tests run against, by the name of the kind of server."""
    return _CHOICES[os.environ.get("SERVERS_TESTED") or ("both" if is_long() else STANDALONE)]


def running(kind, directory, *, environment=None, users=None):
    """Return a server of that kind, not started, as a context. Durable."""
    return {STANDALONE: LocalServer, CLUSTER: ClusterServer}[kind](
        directory, environment=environment, users=users
    )


def running_secure(kind, directory):
    """Return one with certificates and the users of ``tests.secure_server``, not started, as a context."""
    return {STANDALONE: SecureServer, CLUSTER: SecureCluster}[kind](directory)
