"""From the URI of a store to the provider of its chunks."""

from __future__ import annotations

from headrace.errors import UnsupportedError
from headrace.runtime.context import Runtime
from headrace.storage.providers.chunk_threads import ChunkThreads
from headrace.storage.providers.contract import ChunkProvider
from headrace.storage.providers.filesystem import FilesystemChunkProvider, FilesystemProviderConfig
from headrace.storage.providers.location import OBJECT_SCHEMES, StorageLocation
from headrace.storage.providers.memory import MemoryChunkProvider
from headrace.storage.providers.object_store import ObjectStoreChunkProvider, ObjectStoreConfig
from headrace.storage.providers.store_proof import prove_store

__all__ = ["make_provider", "prove_store"]


def make_provider(
    location: StorageLocation,
    runtime: Runtime,
    threads: ChunkThreads | None = None,
    *,
    files: FilesystemProviderConfig | None = None,
    proof: str = "",
    objects: ObjectStoreConfig | None = None,
) -> ChunkProvider:
    """Make the provider of a location; nothing is sent to the store before its first call.

    ``threads``, ``files`` and ``proof`` (see :class:`FilesystemChunkProvider`) are for directories, which
    exist already; ``objects`` is for object stores.

    Raises:
        InvalidArgumentError: the location does not say enough: no region, or no account.
        UnsupportedError: the library of this store is not installed.
    """
    match location.scheme:
        case "memory":
            return MemoryChunkProvider()
        case "file":
            assert threads is not None, "files need threads"
            return FilesystemChunkProvider(location.prefix, runtime.filesystem, threads, files, proof=proof)
        case scheme if scheme in OBJECT_SCHEMES:
            return ObjectStoreChunkProvider(location, runtime.entropy, objects)
        case _:
            raise UnsupportedError(f"{location.scheme}:// is not offered yet")
