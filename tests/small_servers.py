"""Servers of tests are small: a new one has two containers instead of four, unless the test says how many.

Each has a log whose first file of 64 MiB is zeroed ahead, read by the next start and synced at the end: of
what a server that does little uses, most is used for its containers.
"""

from itertools import pairwise
from pathlib import Path

from tests import programs

_CONTAINERS = "2"


class Popen(programs.Popen):
    """What starts the process of a ``LocalServer``."""

    def __init__(self, arguments, *, env, **options):
        if _is_new(arguments):
            env = {"HEADRACE_CONTAINERS": _CONTAINERS, **env}
        super().__init__(arguments, env=env, **options)


def _is_new(arguments):
    """Whether the number of containers is open: neither told by an option or a file, nor by data."""
    words = list(map(str, arguments))
    if not {"--containers", "--config"}.isdisjoint(words):
        return False
    directories = [behind for word, behind in pairwise(words) if word == "--data-dir"]
    return not directories or not Path(directories[-1]).exists()
