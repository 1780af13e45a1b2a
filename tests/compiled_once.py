"""One process at a time reads a module of tests: of several, one compiles it, and the others find that.

In a fresh checkout pytest rewrites each test file. Processes that begin together would all do so, file for
file, and be done no earlier.
"""

import fcntl
from contextlib import contextmanager


@contextmanager
def compiled_once(path):
    """While the block reads the module at ``path``, no other process does in a block like this."""
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
