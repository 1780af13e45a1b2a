"""Refuses to begin a container anew whose log was lost: its segments would be answered as "no such segment".
And refuses to pass over a log that is there: the same would be said of nearly all segments.

A log that is not there, or that never had an owner, is normal in a new directory, and after a crash of the
very first start. No data can have been written then: requests are accepted when all logs exist. So a chunk
or a segment, other than those that containers make for themselves, proves that the missing log existed once.
A log beyond the number of containers proves that the number is not the one the data were made with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headrace.data_directory.advised_commands import advised_rebuild, file_location
from headrace.data_directory.chunk_root import chunk_root
from headrace.data_directory.record import FILE_NAME, describe_surplus
from headrace.errors import DataCorruptionError
from headrace.runtime.filesystem import Filesystem
from headrace.runtime.read_only_files import ReadOnlyFiles
from headrace.segmentstore.container.segment_catalogue import catalogue_name
from headrace.segmentstore.inspection.container_replay import replay_container
from headrace.segmentstore.segment_names import is_internal, is_internal_chunk
from headrace.storage.checkpoints.object_names import CHECKPOINTS_PREFIX, parse_object_name
from headrace.storage.chunks.chunk_names import parse_chunk_name
from headrace.storage.identity_format import IDENTITY_NAME
from headrace.storage.inspect import ChunkFiles
from headrace.storage.metadata.rows import SEGMENT_PREFIX
from headrace.storage.providers.contract import ChunkProvider
from headrace.storage.providers.location import StorageLocation
from headrace.wal.logs import FoundLog, FoundLogs

DEFAULT_ROOT: Final = ""
"""Stands for the directory of the chunks within a data directory."""


def check_logs(
    logs: FoundLogs, files: Filesystem, directory: str, containers: int, root: str | None = DEFAULT_ROOT
) -> list[int]:
    """Compare the logs that are there with what the directory was made for. Reads only if one is missing.

    Returns:
        The containers whose logs this start makes, see :func:`find_unmade`.

    Raises:
        DataCorruptionError: a log is missing that existed once, or is there and would be passed over; or one
            that is there is damaged.
    """
    surplus = describe_surplus(logs.numbers(), containers)
    if surplus:
        raise DataCorruptionError(surplus, path=f"{directory}/{FILE_NAME}")
    return find_unmade(logs, files, directory, containers, root)


def find_unmade(
    logs: FoundLogs, files: Filesystem, directory: str, containers: int, root: str | None = DEFAULT_ROOT
) -> list[int]:
    """Return the containers whose logs the next start makes. Reads only if there are any.

    Args:
        logs: the logs.
        files: where the chunks are.
        directory: of all data.
        containers: how many the directory was made for.
        root: where the chunks are, by default in the directory; None if these are no files, and looked for
            by :func:`check_store`.

    Raises:
        DataCorruptionError: one of these existed once; or one that is there is damaged.
    """
    unmade = [number for number in range(containers) if not logs.log(number).is_begun()]
    if not unmade:
        return []
    looking = ReadOnlyFiles(files)
    there = [number for number in range(containers) if number not in unmade]
    missing = logs.log(unmade[0]).place
    if root == DEFAULT_ROOT:
        root = chunk_root(directory)
    if (root is not None and _has_chunks(root, looking, unmade)) or any(
        _was_used(number, logs.log(number)) for number in there
    ):
        lost = "the log of this container is missing; put it back"
        if root is not None and looking.exists(f"{root}/{CHECKPOINTS_PREFIX}"):
            command = advised_rebuild(looking, file_location(root), directory)
            lost += f", or make the logs anew from their copies beside the chunks: `{command}`"
        raise DataCorruptionError(lost, path=missing)
    hidden = "" if root is None else _find_hidden(root, looking)
    if hidden:
        raise DataCorruptionError(
            "the log of this container is missing, which is normal only if there are no chunks; but "
            f"{hidden} cannot be looked into: it is a link, or may not be read by this user",
            path=missing,
        )
    return unmade


async def check_store(
    provider: ChunkProvider,
    location: StorageLocation,
    directory: str,
    unmade: Sequence[int],
    logs: FoundLogs,
    files: Filesystem,
) -> None:
    """Refuse to make logs beside chunks of users in a store. Lists only if there are logs to be made.

    Raises:
        DataCorruptionError: a log is missing that existed once.
        StorageReadError: the store did not answer.
    """
    if not unmade:
        return
    async for page in provider.list():
        for found in page:
            is_chunk = parse_chunk_name(found.name) is not None and not is_internal_chunk(found.name)
            if is_chunk or _is_copied(found.name, unmade):
                command = advised_rebuild(files, location, directory)
                raise DataCorruptionError(
                    f"the log of this container is missing, and its store has {found.name!r}: put the log "
                    f"back, or make the data directory anew: `{command}`",
                    path=logs.log(unmade[0]).place,
                )


def _has_chunks(root: str, files: ReadOnlyFiles, unmade: Sequence[int]) -> bool:
    objects = ChunkFiles(root, files).objects(lambda _path, _error: None)
    return any(_proves_use(name, unmade) for name, _ in objects)


def _proves_use(name: str, unmade: Sequence[int]) -> bool:
    """Whether a file of this name shows that a log existed which is missing."""
    if name.startswith(CHECKPOINTS_PREFIX):
        return _is_copied(name, unmade)
    return not is_internal_chunk(name) and name != IDENTITY_NAME


def _is_copied(name: str, unmade: Sequence[int]) -> bool:
    """Whether an object is of a copy of one of these logs. Containers copy theirs soon after they start."""
    found = parse_object_name(name)
    return found is not None and found.container in unmade


def _find_hidden(root: str, files: ReadOnlyFiles) -> str:
    """Return a directory of chunks that was not looked into, "" if there is none.

    No server makes links, or directories that it may not read: they are a sign that chunks were moved.
    """
    hidden: list[str] = []
    for _ in ChunkFiles(root, files).objects(lambda path, _: hidden.append(path)):
        pass
    return hidden[0] if hidden else ""


def _was_used(container_id: int, log: FoundLog) -> bool:
    """Whether a log holds anything that its container did not make for itself at its first start."""
    state = replay_container(container_id, log).state
    stored = [
        key.removeprefix(SEGMENT_PREFIX) for key in state.storage_rows if key.startswith(SEGMENT_PREFIX)
    ]
    catalogue = state.by_name.get(catalogue_name(container_id))
    if catalogue is not None and catalogue.durable_length:
        return True  # only of other segments has it ever had a row
    return any(not is_internal(name) for name in (*state.by_name, *stored))
