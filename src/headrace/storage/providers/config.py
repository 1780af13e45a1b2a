"""Settings of the storage of chunks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.runtime.settings import internal, tunable


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkThreadsConfig:
    """How many calls of each kind are made at the same time; further ones wait for a thread."""

    writes: int = tunable(
        4, low=1, high=256, simulate=(1, 2), help="Threads that create chunk files and append to them."
    )
    reads: int = tunable(4, low=1, high=256, simulate=(1, 2), help="Threads that read chunk files.")
    chores: int = internal(1, help="Threads that delete, list and inspect chunk files.")


HDFS_THREADS: Final = ChunkThreadsConfig(writes=32, reads=8, chores=2)
"""Many, since closing a new file in HDFS may take half a second: the library looks for the data node's report
at once, mostly in vain, and then not for so long."""
