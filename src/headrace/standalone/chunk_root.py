"""Refuses to go on without the file system that holds the chunks.

Another file system may be mounted where the chunks are. Without it everything seems to be lost, and what
is written meanwhile is hidden once it is mounted again: acknowledged bytes would be gone. A file beside the
chunks, made before anything else is, distinguishes the two.

Format page: ``docs/formats/data-directory.md``.
"""

from __future__ import annotations

import os

from headrace.errors import DataCorruptionError
from headrace.runtime.filesystem import Filesystem
from headrace.storage.providers.chunk_paths import FILE_SUFFIX, PROOF, is_chunk_entry


def chunk_root(directory: str) -> str:
    """Return where the chunks of a data directory are."""
    return f"{directory}/chunks"


def proof_of(directory: str) -> str:
    """Return the file without which nothing new is made where the chunks are."""
    return f"{chunk_root(directory)}/{PROOF}"


def make_chunk_root(files: Filesystem, directory: str) -> None:
    """Make the directory of the chunks, and the proof, durably; what is there already stays."""
    root = chunk_root(directory)
    if not files.exists(root):
        files.mkdir(root)
        files.fsync_directory(directory)
    descriptor = files.open(proof_of(directory), os.O_WRONLY | os.O_CREAT)
    try:
        files.fsync(descriptor)
    finally:
        files.close(descriptor)
    files.fsync_directory(root)


def check_chunk_root(files: Filesystem, directory: str) -> None:
    """Look for the proof in a directory that was used; one that has chunks and no proof gets it.

    Raises:
        DataCorruptionError: there is neither.
    """
    root, proof = chunk_root(directory), proof_of(directory)
    if files.exists(proof):
        return
    if not files.exists(root) or not _has_chunks(files, root):
        raise DataCorruptionError(
            "there are no chunks where this server kept them: mount their file system, or put them back; if "
            "they are lost for good, or there never were any, make this file",
            path=proof,
        )
    make_chunk_root(files, directory)


def _has_chunks(files: Filesystem, root: str) -> bool:
    """Whether a root holds a chunk or a directory of chunks: any other file may lie in a bare mount point."""
    return any(
        is_chunk_entry(entry) and (entry.endswith(FILE_SUFFIX) or _is_directory(files, f"{root}/{entry}"))
        for entry in files.listdir(root)
    )


def _is_directory(files: Filesystem, path: str) -> bool:
    try:
        files.listdir(path)
    except (NotADirectoryError, FileNotFoundError):
        return False
    except OSError:
        return True  # it may not be looked into, but a file would have said so
    return True
