"""How the chunks of a data directory are looked at: where they are, at which rate, with which progress."""

from __future__ import annotations

import asyncio
import threading
import weakref
from dataclasses import dataclass, replace
from time import monotonic  # noqa: TID251 - no loop runs here that has a clock
from typing import Final

from headrace.cli.progress import Progress
from headrace.data_directory.record import system_of
from headrace.errors import DataCorruptionError, InvalidArgumentError
from headrace.runtime.context import system_runtime
from headrace.runtime.filesystem import Filesystem
from headrace.storage.inspect import ChunkFiles, StoredChunks
from headrace.storage.inspect_store import StoreObjects
from headrace.storage.providers.location import StorageLocation
from headrace.storage.providers.stores import make_provider
from headrace.storage.providers.wrappers.retrying import RetryingChunkProvider
from headrace.storage.providers.wrappers.throttled import ThrottledChunkProvider
from headrace.storage.providers.wrappers.token_bucket import RequestBudget
from headrace.storage.store_identity import read_identity

_CALL_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class ChunkAccess:
    """``storage``: a URI that overrules the record of the directory; "" for none."""

    storage: str = ""
    requests_per_s: float | None = None
    bytes_per_s: float | None = None
    progress: Progress | None = None
    """Is shown the bytes that are read."""

    def open(self, recorded: str, directory: str, files: Filesystem) -> StoredChunks:
        """Return the chunks of a data directory of which the record says ``recorded``.

        Raises:
            InvalidArgumentError: the URI, or a rate, is none; or the store that was named has no identity.
            DataCorruptionError: the store that was named is another system's.
            UnsupportedError: a library is missing that this store needs.
            StorageReadError: the store that was named did not answer.
        """
        budget = RequestBudget(self.requests_per_s, self.bytes_per_s)
        uri = self.storage or recorded
        location = StorageLocation.parse(uri) if uri else None
        if location is None or location.scheme == "file":
            root = f"{directory}/chunks" if location is None else location.prefix
            return ChunkFiles(root, files, _Pace(budget, self.progress))
        provider = ThrottledChunkProvider(
            RetryingChunkProvider(make_provider(location, system_runtime(), fences=False), _CALL_S), budget
        )

        def on_progress(objects: int, size: int) -> None:
            if self.progress is not None:
                self.progress.show(size, f"{objects:,} objects listed")

        runner = asyncio.Runner()  # a provider belongs to one loop
        if self.storage and (system := system_of(files, directory)):
            try:
                _refuse_others(uri, directory, runner.run(read_identity(provider)), system)
            except BaseException:
                runner.close()
                raise
        store = StoreObjects(str(replace(location, options=())), provider, runner.run, on_progress)
        weakref.finalize(store, runner.close)
        return store


def _refuse_others(uri: str, directory: str, found: str | None, system: str) -> None:
    """Refuse an identity that was ``found`` if it is not that of ``system``.

    Raises:
        InvalidArgumentError: there is none.
        DataCorruptionError: it is another's.
    """
    if found == system:
        return
    text = f"{uri} is not the store of {directory}: it {{}}: correct the URI, or leave it out"
    if found is None:
        raise InvalidArgumentError(text.format("has no identity"))
    raise DataCorruptionError(text.format(f"has the data of another system ({found})"))


class _Pace:
    """Waits after each read of a file, so that rates are kept; shows how much was read."""

    def __init__(self, budget: RequestBudget, progress: Progress | None) -> None:
        self._budget = budget
        self._pause = threading.Event()
        self._progress = progress
        self._bytes = 0

    def __call__(self, size: int) -> None:
        wait_s = self._budget.consume(size, monotonic())
        if wait_s > 0:
            self._pause.wait(wait_s)
        self._bytes += size
        if self._progress is not None:
            self._progress.show(self._bytes)
