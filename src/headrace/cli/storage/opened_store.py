"""Stores that a command reads and writes, by their URIs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from headrace.errors import InvalidArgumentError
from headrace.runtime.context import system_runtime
from headrace.storage.providers.config import ChunkThreadsConfig
from headrace.storage.providers.contract import ChunkProvider
from headrace.storage.providers.files.chunk_threads import ChunkThreads
from headrace.storage.providers.location import StorageLocation
from headrace.storage.providers.stores import make_provider
from headrace.storage.providers.wrappers.retrying import RetryingChunkProvider
from headrace.storage.providers.wrappers.throttled import ThrottledChunkProvider
from headrace.storage.providers.wrappers.token_bucket import RequestBudget

CALL_S: Final = 120.0
"""How long a store may take for one object."""


@asynccontextmanager
async def open_store(uri: str, budget: RequestBudget, *, makes: bool = False) -> AsyncIterator[ChunkProvider]:
    """Open a store; ``makes``: it is written to, and a directory that is missing is made.

    Raises:
        InvalidArgumentError: the URI is none, or the directory is missing.
        UnsupportedError: a library is missing that this store needs.
    """
    location, runtime = StorageLocation.parse(uri), system_runtime()
    threads = None
    if location.scheme == "file":
        root = Path(location.prefix)
        if makes:
            root.mkdir(parents=True, exist_ok=True)
        elif not root.is_dir():
            raise InvalidArgumentError(f"there is no directory {root}")
        threads = ChunkThreads.start(runtime.threads, ChunkThreadsConfig())
    provider = make_provider(location, runtime, threads, fences=False)
    try:
        yield ThrottledChunkProvider(RetryingChunkProvider(provider, CALL_S), budget)
    finally:
        if threads is not None:
            threads.close()
            await threads.wait_closed()
        await provider.close()
