"""Clock, random numbers, files and threads in one value, for components that need several of them.

A simulated host is the same program with another ``Runtime``. The network is not here: it is reached
through the running event loop (``loop.create_server``, ``loop.create_connection``), which simulation
replaces as well.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.runtime.blocking import SystemThreads, Threads
from headrace.runtime.clock import Clock, SystemClock
from headrace.runtime.entropy import Entropy, SystemEntropy
from headrace.runtime.filesystem import Filesystem, OsFilesystem


@dataclass(frozen=True, slots=True)
class Runtime:
    """The environment of one host."""

    clock: Clock
    entropy: Entropy
    filesystem: Filesystem
    threads: Threads


def system_runtime() -> Runtime:
    """Return the real environment of this process."""
    return Runtime(SystemClock(), SystemEntropy(), OsFilesystem(), SystemThreads())
