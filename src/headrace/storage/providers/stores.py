"""From the URI of a store to the provider of its chunks."""

from __future__ import annotations

from headrace.runtime.context import Runtime
from headrace.storage.providers.config import HDFS_THREADS
from headrace.storage.providers.contract import ChunkProvider
from headrace.storage.providers.files.chunk_threads import ChunkThreads
from headrace.storage.providers.files.filesystem import FilesystemChunkProvider, FilesystemProviderConfig
from headrace.storage.providers.hdfs.provider import HdfsChunkProvider
from headrace.storage.providers.location import StorageLocation
from headrace.storage.providers.memory import MemoryChunkProvider
from headrace.storage.providers.objects.object_store import ObjectStoreChunkProvider, ObjectStoreConfig
from headrace.storage.providers.objects.store_proof import prove_store

__all__ = ["make_provider", "prove_store"]


def make_provider(
    location: StorageLocation,
    runtime: Runtime,
    threads: ChunkThreads | None = None,
    *,
    files: FilesystemProviderConfig | None = None,
    proof: str = "",
    objects: ObjectStoreConfig | None = None,
    fences: bool = True,
) -> ChunkProvider:
    """Make the provider of a location; nothing is sent to the store before its first call.

    ``threads`` are for directories and HDFS, which has its own if there are none; ``files`` and ``proof``
    (see :class:`FilesystemChunkProvider`) are for directories, which exist already; ``objects`` is for
    object stores; ``fences`` is for HDFS (see :class:`HdfsChunkProvider`): False where data are only looked
    at.

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
        case "hdfs":
            if threads is not None:
                return HdfsChunkProvider(location, threads, fences=fences)
            threads = ChunkThreads.start(runtime.threads, HDFS_THREADS)
            return HdfsChunkProvider(location, threads, closes_threads=True, fences=fences)
        case _:
            return ObjectStoreChunkProvider(location, runtime.entropy, objects)
