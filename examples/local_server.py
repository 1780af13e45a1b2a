"""The server the examples talk to: the one named on the command line, or one of their own in memory."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.testing import LocalServer


@contextmanager
def server_uri() -> Iterator[str]:
    """Yield the URI of a controller: the program's first argument, or a server started for this program."""
    if len(sys.argv) > 1:
        yield sys.argv[1]
        return
    with LocalServer(None, "--in-memory") as server:
        yield server.uri
