"""Objects in memory of which everything is at hand, as files in the page cache are."""

from headrace.storage.providers.wrappers.wrapper import ChunkProviderWrapper


class ChunksAtHand(ChunkProviderWrapper):
    """Around a MemoryChunkProvider."""

    @property
    def local(self):
        return self

    def read_at_once(self, name, offset, buffer):
        content = self.provider.objects.get(name, b"")
        if not 0 <= offset < len(content):
            return 0
        found = content[offset : offset + len(buffer)]
        buffer[: len(found)] = found
        return len(found)

    def open_file(self, name):
        """No file holds it."""

    def reopen(self, name):
        """Nothing is kept open."""
