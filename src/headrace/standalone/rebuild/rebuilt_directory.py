"""The data directory that a rebuild makes: only where no log is, and marked until it is whole."""

from __future__ import annotations

from headrace.errors import InvalidArgumentError
from headrace.runtime.filesystem import Filesystem
from headrace.standalone.chunk_root import chunk_root
from headrace.standalone.chunk_store import ChunkStore, facts_of
from headrace.standalone.data_directory import check_data_directory, find_logs, system_of
from headrace.standalone.unfinished_rebuild import Wanted, begin_rebuild, end_rebuild, find_unfinished
from headrace.storage.providers.chunk_paths import is_chunk_entry
from headrace.storage.providers.location import StorageLocation


def claim_directory(files: Filesystem, directory: str, wanted: Wanted) -> None:
    """See to it that a directory has no logs but those of an unfinished rebuild, remove these, and mark it.

    Raises:
        InvalidArgumentError: it has data, or the unfinished rebuild was asked for something else.
    """
    unfinished = find_unfinished(files, directory)
    if unfinished is None:
        _refuse_data(files, directory, wanted)
        begin_rebuild(files, directory, wanted)
    elif unfinished != wanted:
        raise InvalidArgumentError(
            f"{directory} has an unfinished rebuild from {unfinished.source}{_time_words(unfinished)}: "
            "finish it with the same command, or use another directory"
        )
    for container in find_logs(files, directory):
        log = log_directory(directory, container)
        for name in files.listdir(log):
            files.unlink(f"{log}/{name}")
        files.fsync_directory(log)


def _time_words(wanted: Wanted) -> str:
    return "" if wanted.at_ms is None else f" with --at {wanted.at_ms}"


def give_up_untouched(files: Filesystem, directory: str) -> None:
    """Remove the mark of a rebuild that has made nothing: its store may be the wrong one. Raises: OSError."""
    if not find_logs(files, directory) and system_of(files, directory) is None:
        end_rebuild(files, directory)


def _refuse_data(files: Filesystem, directory: str, wanted: Wanted) -> None:
    logs = f"{directory}/wal"
    names = files.listdir(logs) if files.exists(logs) else []
    used = next((name for name in names if not _is_empty(files, f"{logs}/{name}")), None)
    if used is not None:
        raise InvalidArgumentError(
            f"{logs}/{used} exists: a rebuild never touches a log; move {logs} away, or use another directory"
        )
    root = chunk_root(directory)
    source = StorageLocation.parse(wanted.source)
    if source != StorageLocation("file", prefix=root) and _has_chunks(files, root):
        raise InvalidArgumentError(
            f"{root} has chunks, and the system is rebuilt from {source}: use another directory"
        )


def _is_empty(files: Filesystem, path: str) -> bool:
    try:
        return not files.listdir(path)
    except NotADirectoryError:
        return False


def _has_chunks(files: Filesystem, root: str) -> bool:
    return files.exists(root) and any(map(is_chunk_entry, files.listdir(root)))


def record_system(files: Filesystem, directory: str, containers: int, store: ChunkStore) -> None:
    """Write the record of the directory, or compare with the one that is there.

    Raises:
        InvalidArgumentError: it was made with another number of containers, or for another system.
        DataCorruptionError: it cannot be read.
    """
    known = system_of(files, directory)
    if known is not None and store.system and known != store.system:
        raise InvalidArgumentError(f"{directory} is of the system {known}, the store of {store.system}")
    facts = {key: value for key, value in facts_of(store, directory).items() if value}
    check_data_directory(files, directory, containers, facts)


def make_log_directory(files: Filesystem, directory: str, container: int) -> str:
    """Make the directory of a log, durably, and return it."""
    logs, log = f"{directory}/wal", log_directory(directory, container)
    for path, above in ((logs, directory), (log, logs)):
        if not files.exists(path):
            files.mkdir(path)
            files.fsync_directory(above)
    return log


def log_directory(directory: str, container: int) -> str:
    return f"{directory}/wal/container-{container}"
