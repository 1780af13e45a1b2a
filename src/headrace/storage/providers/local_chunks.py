"""What only a provider whose objects are files of this machine can do, asked for by ``ChunkProvider.local``.

A store without it serves the same reads, each by a call that waits.
"""

from __future__ import annotations

from typing import Protocol

from headrace.runtime.open_file import OpenFile


class LocalChunks(Protocol):
    """Objects whose bytes may be at hand. Nothing here waits or raises; all calls on the event loop."""

    def read_at_once(self, name: str, offset: int, buffer: memoryview) -> int:
        """Copy what can be had without waiting from ``offset`` on; return how many bytes that were.

        0 says nothing about the object, only that ``read`` of the provider has to be asked.
        """

    def open_file(self, name: str) -> OpenFile | None:
        """Return the file whose content is the object's, if it is open.

        Valid in this iteration of the loop, for a caller that has just read from it.
        """

    def reopen(self, name: str) -> None:
        """Read the object anew from now on: it may have been replaced by a good copy of itself."""
