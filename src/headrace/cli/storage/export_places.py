"""Where an export goes or comes from: a directory, or a store by its URI."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager

from headrace.cli.storage.opened_store import open_store
from headrace.storage.providers.location import StorageLocation
from headrace.storage.providers.wrappers.token_bucket import RequestBudget
from headrace.storage.transfer.plain_files import ExportPlace, PlainFiles, StorePlace


@contextmanager
def open_place(where: str) -> Iterator[ExportPlace]:
    """Open a directory, named as such or by its URI, or a store.

    Raises:
        InvalidArgumentError: the URI is none.
        UnsupportedError: a library is missing that this store needs.
    """
    if "://" not in where:
        yield PlainFiles(where)
        return
    location = StorageLocation.parse(where)
    if location.scheme == "file":
        yield PlainFiles(location.prefix)
        return
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        provider = runner.run(stack.enter_async_context(open_store(where, RequestBudget(), makes=True)))
        try:
            yield StorePlace(provider, runner.run)
        finally:
            runner.run(stack.aclose())
