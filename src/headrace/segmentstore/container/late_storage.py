"""The storage reader of a read index, which exists before its storage: that starts after recovery."""

from __future__ import annotations

from headrace.errors import ContainerOfflineError
from headrace.runtime.open_file import FileSpan
from headrace.segmentstore.contract import StorageReader


class LateStorage:
    """The storage reader of a container whose storage starts after its read index."""

    target: StorageReader | None = None

    async def read_some(self, segment: str, offset: int, length: int) -> bytes | bytearray | memoryview:
        """See :meth:`StorageReader.read_some`."""
        if self.target is None:
            raise ContainerOfflineError("the container is still recovering")
        return await self.target.read_some(segment, offset, length)

    def read_at_once(
        self, segment: str, offset: int, length: int, buffer: memoryview
    ) -> tuple[int, int, FileSpan | None]:
        """See :meth:`StorageReader.read_at_once`."""
        if self.target is None:
            return 0, 0, None
        return self.target.read_at_once(segment, offset, length, buffer)
