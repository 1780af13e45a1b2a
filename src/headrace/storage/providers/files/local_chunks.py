"""What only a provider whose objects are files of this machine can do: see ``ChunkProvider.local``.

A store without it serves the same reads, each by a call that waits.
"""

from __future__ import annotations

from typing import Protocol

from headrace.runtime.open_file import OpenFile


class LocalChunks(Protocol):
    """Objects whose bytes may be in the page cache. No call waits or raises; all run on the event loop."""

    def read_at_once(self, name: str, offset: int, buffer: memoryview) -> int:
        """Copy what can be read without waiting from ``offset`` on; return how many bytes that were.

        0 says nothing about the object: ``read`` of the provider has to be called.
        """

    def open_file(self, name: str) -> OpenFile | None:
        """Return the file whose content is the object's, if it is open.

        Valid in this iteration of the loop, for a caller that has just read from it.
        """

    def reopen(self, name: str) -> None:
        """Read the object anew from now on: it may have been replaced by a good copy of itself."""
