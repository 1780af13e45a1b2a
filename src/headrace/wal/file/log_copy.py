"""Copies a log in files while its owner writes it: what it holds at one moment."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from typing import Final

from headrace.errors import WalWriteError
from headrace.limits import MIB
from headrace.runtime.blocking import BlockingWork
from headrace.runtime.filesystem import Filesystem
from headrace.wal.file.log_snapshot import FileLogSnapshot
from headrace.wal.logs import LogFrame

_STEP_BYTES: Final = 4 * MIB


async def copy_log(
    work: BlockingWork, directory: str, files: Filesystem
) -> AsyncGenerator[list[bytes], None]:
    """Yield the content of every living record, in order; ``work`` reads them, a few MiB at a time.

    Raises:
        SnapshotLostError: the log was truncated meanwhile.
        DataCorruptionError: it is damaged.
        WalWriteError: it cannot be read.
    """
    try:
        frames = await work.run(_open, directory, files)
        try:
            while some := await work.run(_take, frames):
                yield some
        finally:
            await work.run(_end, frames)
    except OSError as error:
        raise WalWriteError(f"reading the log in {directory} failed: {error}") from error


def _open(directory: str, files: Filesystem) -> Iterator[LogFrame]:
    return FileLogSnapshot(directory, files).frames()


def _take(frames: Iterator[LogFrame]) -> list[bytes]:
    """Return the next records, empty at the end."""
    taken: list[bytes] = []
    size = 0
    while size < _STEP_BYTES and (frame := next(frames, None)) is not None:
        taken.append(bytes(frame.payload))
        size += len(frame.payload)
    return taken


def _end(frames: Iterator[LogFrame]) -> None:
    """Close the file that is being read."""
    close = getattr(frames, "close", None)
    if close is not None:
        close()
