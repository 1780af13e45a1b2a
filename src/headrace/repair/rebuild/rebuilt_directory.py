"""The data directory that a rebuild makes: only where no log is, and marked until it is whole."""

from __future__ import annotations

from headrace.data_directory.advised_commands import find_vacant, has_other_chunks, rebuild_command
from headrace.data_directory.chunk_root import chunk_root
from headrace.data_directory.chunk_store import ChunkStore, facts_of
from headrace.data_directory.record import find_used_log, make_record
from headrace.data_directory.unfinished_rebuild import Wanted, is_marked
from headrace.errors import InvalidArgumentError
from headrace.runtime.filesystem import Filesystem
from headrace.storage.providers.location import StorageLocation


def check_vacant(files: Filesystem, directory: str, wanted: Wanted) -> None:
    """Refuse a directory with data: with a log, unless an unfinished rebuild has made it, or with chunks of
    another store. Records, locks and marks of earlier attempts are no data.

    Raises:
        InvalidArgumentError: it has data.
    """
    source = StorageLocation.parse(wanted.source)
    log = None if is_marked(files, directory) else find_used_log(files, directory)
    if log is None and not has_other_chunks(files, source, directory):
        return
    elsewhere = rebuild_command(wanted.source, find_vacant(files, source, directory), wanted.at_ms)
    if log is not None:
        raise InvalidArgumentError(
            f"{log} exists: a rebuild never touches a log; rebuild into another directory: `{elsewhere}`"
        )
    raise InvalidArgumentError(
        f"{chunk_root(directory)} has chunks, and the system is rebuilt from {source}: rebuild into another "
        f"directory: `{elsewhere}`"
    )


def record_system(files: Filesystem, directory: str, containers: int, store: ChunkStore) -> None:
    """Write the record of the directory; what an earlier attempt has recorded means nothing without a log.
    Raises: OSError.
    """
    make_record(files, directory, containers, facts_of(store, directory))
