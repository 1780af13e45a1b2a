"""Which store has the chunks of a data directory, and whether it is the right one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from headrace.data_directory.advised_commands import advised_rebuild, file_location, serve_command
from headrace.data_directory.chunk_root import chunk_root
from headrace.data_directory.log_place import place_of
from headrace.data_directory.lost_logs import check_store
from headrace.data_directory.record import (
    FILE_NAME,
    FORMAT,
    find_used_log,
    make_record,
    raise_format,
    recorded_storage,
    system_of,
)
from headrace.errors import (
    HeadraceError,
    PreconditionError,
    StorageFullError,
    StorageReadError,
    StorageWriteError,
)
from headrace.runtime.context import Runtime
from headrace.runtime.filesystem import Filesystem
from headrace.runtime.read_only_files import ReadOnlyFiles
from headrace.runtime.supervisor import Supervisor
from headrace.storage.identity_format import SYSTEM_BYTES, judge_identity
from headrace.storage.inspect import ChunkFiles
from headrace.storage.providers.contract import ChunkProvider
from headrace.storage.providers.location import StorageLocation
from headrace.storage.providers.stores import prove_store
from headrace.storage.providers.wrappers.retrying import RetryingChunkProvider
from headrace.storage.store_identity import claim_identity, look_identity
from headrace.wal.stores import find_logs

_logger = logging.getLogger(__name__)

_CALL_S: Final = 30.0
"""How long the store may take for one of the requests of a start."""

_RETRY_S: Final = 5.0

WAITS_S: Final = 10.0
"""How long a start waits for the store that the last one used: ingest does not depend on it."""


class StoreChoice(Protocol):
    """What a person may choose about the store of a directory."""

    @property
    def data_dir(self) -> str: ...

    @property
    def storage(self) -> str | None:
        """URI; None: as recorded, and ``chunks`` in a new directory."""

    @property
    def log(self) -> str | None:
        """URI of a place for the log; None: as recorded, and ``wal`` in a new directory."""

    @property
    def in_memory(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class ChunkStore:
    """A store, and what its data directory says of it."""

    location: StorageLocation

    system: str = ""
    """Whose data they are."""

    is_recorded: bool = False
    """A start before has used it, as far as the directory's record says."""

    is_new: bool = False
    """No log of the directory has a file."""

    unmade: Sequence[int] = ()
    """Containers whose logs this start makes."""

    format: int = FORMAT
    """At which the system is: a cluster may be at an earlier one than this version."""

    log: str = ""
    """URI of the place of the logs; "" if they are in the data directory."""

    @property
    def root(self) -> str | None:
        """The directory of the chunks; None if they are no files of this machine."""
        return self.location.prefix if self.location.scheme == "file" else None

    @property
    def belongs_to_one(self) -> bool:
        """Whether the store has an identity: not memory, which is new at each start."""
        return self.location.scheme != "memory" and self.system != ""


def store_of(choice: StoreChoice) -> ChunkStore:
    """Return the store that the choice names, of which nothing is known yet."""
    if choice.in_memory:
        return ChunkStore(StorageLocation("memory"))
    if choice.storage is not None:
        return ChunkStore(StorageLocation.parse(choice.storage))
    return ChunkStore(StorageLocation("file", prefix=chunk_root(choice.data_dir)))


def find_store(choice: StoreChoice, runtime: Runtime) -> ChunkStore:
    """Return the store that the choice names, or the record of the directory.

    Raises:
        DataCorruptionError: the record cannot be read.
        InvalidArgumentError: its URI is none.
    """
    files, directory = runtime.filesystem, choice.data_dir
    recorded = recorded_storage(files, directory)
    store = store_of(choice)
    if choice.storage is None and recorded:
        store = ChunkStore(StorageLocation.parse(recorded))
    return replace(
        store,
        system=system_of(files, directory) or runtime.entropy.token(SYSTEM_BYTES).hex(),
        is_recorded=recorded == str(store.location),
    )


def facts_of(store: ChunkStore, directory: str) -> dict[str, str]:
    """Return what the record of a directory says of its store; "" removes a key."""
    is_default = store.root == chunk_root(directory)
    return {
        "system": store.system,
        "storage": "" if is_default else str(store.location),
        "log": store.log,
    }


def check_file_store(files: Filesystem, store: ChunkStore, directory: str) -> None:
    """Refuse a directory of chunks that is another system's, before anything is written there or recorded.

    What the data directory itself has is its own: without a record its logs are what is missed.

    Raises:
        InvalidArgumentError, DataCorruptionError: see :func:`judge_identity`.
    """
    root = store.root
    is_recorded = files.exists(f"{directory}/{FILE_NAME}")
    if root is None or (root == chunk_root(directory) and not is_recorded):
        return
    found = ChunkFiles(root, ReadOnlyFiles(files)).find_identity()
    if found is None:
        return
    is_new = find_used_log(files, directory) is None
    advice = _advice(files, replace(store, is_new=is_new), directory)
    judge_identity(root, found, store.system, advice, is_new=is_new, adopts=True, other="")


async def claim_store(
    provider: ChunkProvider,
    store: ChunkStore,
    directory: str,
    runtime: Runtime,
    record: Callable[[], None] = lambda: None,
) -> None:
    """See to it that a store is fit to be used, and that of the data directory. Nothing is written before it
    is known whose it is; then ``record`` is called, and only then it gets an identity.

    A directory of files was recognised by its proof before, and its logs compared with it. It gets an
    identity so that a copy of it in another store has one.

    Raises:
        UnsupportedError: it lets objects be overwritten.
        InvalidArgumentError, DataCorruptionError: it is another's, or a log is missing that existed once.
        StorageFullError, StorageReadError, StorageWriteError: it did not answer; repeat.
    """
    patient = RetryingChunkProvider(provider, _CALL_S)
    where = store.root or str(store.location)
    advice = _advice(runtime.filesystem, store, directory)
    facts = (patient, where, store.system, advice)
    if store.root is not None:
        await claim_identity(*facts, is_new=store.is_new, adopts=True)
        record()
        return
    await look_identity(*facts, is_new=store.is_new)
    logs = find_logs(directory, runtime.filesystem, place_of(store.log, runtime))
    await check_store(patient, store.location, directory, store.unmade, logs, runtime.filesystem)
    await prove_store(patient, runtime.entropy)
    record()
    await claim_identity(*facts, is_new=store.is_new)


def _advice(files: Filesystem, store: ChunkStore, directory: str) -> str:
    """Say what to do if a store turns out to be another's."""
    if store.is_new:
        location = store.location if store.root is None else file_location(store.root)
        return f"or, if its data directory is lost, `{advised_rebuild(files, location, directory)}`"
    if store.is_recorded:
        return ""
    return f"`{serve_command(files, directory)}` goes on with the store that was used before"


class StoreClaim:
    """Claims the store of a server that starts. The store of the last start may be away; one that is used
    for the first time has to answer: its URI or its credentials may be wrong, and nothing is lost yet.

    Args:
        claim: does it once, see :func:`claim_store`.
        store: that store.
        supervisor: of the task that goes on when the start does not wait any longer.
    """

    def __init__(
        self, claim: Callable[[], Awaitable[None]], store: ChunkStore, supervisor: Supervisor
    ) -> None:
        self._claim = claim
        self._store = store
        self._supervisor = supervisor
        self._is_started = False
        """The start did not wait any longer."""
        self._is_first = store.root is None and (store.is_new or not store.is_recorded)
        """Nothing of this directory is there. Files were recognised by their proof before."""

    async def wait(self) -> None:
        """Return once the store was claimed; or, if it is that of the last start, after ``WAITS_S``.

        Raises as :func:`claim_store`, unless the store is full, or that of the last start does not answer:
        then it is asked again.

            PreconditionError: any other store does not answer.
        """
        failed: list[BaseException] = []
        claiming = self._supervisor.spawn("store", self._repeat(failed))
        try:
            await asyncio.wait((claiming,), timeout=None if self._is_first else WAITS_S)
        except asyncio.CancelledError:
            claiming.cancel()
            raise
        if failed:
            raise failed[0]
        if not claiming.done():
            self._is_started = True
            _logger.warning("the server starts without long-term storage; it stores once there is an answer")

    async def _repeat(self, failed: list[BaseException]) -> None:
        is_logged = False
        while True:
            try:
                await self._claim()
            except (StorageFullError, StorageReadError, StorageWriteError) as error:
                if self._is_first and not isinstance(error, StorageFullError):
                    failed.append(
                        PreconditionError(
                            f"a store has to answer before its first use, so nothing was started: {error}"
                        )
                    )
                    break
                if not is_logged:
                    _logger.warning("%s cannot be used yet, retrying: %s", self._store.location, error)
                    is_logged = True
            except (
                HeadraceError,
                OSError,
            ) as error:  # what it is, the start says; if that is over, the log has to
                failed.append(error)
                break
            else:
                break
            await asyncio.sleep(_RETRY_S)
        if self._is_started:
            what = f"must not be used, stop this server: {failed[0]}" if failed else "answers"
            _logger.log(logging.ERROR if failed else logging.INFO, "%s %s", self._store.location, what)


def note_store(files: Filesystem, store: ChunkStore, directory: str, containers: int) -> None:
    """Record that the directory uses this store from now on, and raise its format; a new directory gets its
    record of so many containers. Raises: OSError.
    """
    facts = facts_of(store, directory)
    if files.exists(f"{directory}/{FILE_NAME}"):
        raise_format(files, directory, facts, store.format)
    else:
        make_record(files, directory, containers, facts, store.format)
