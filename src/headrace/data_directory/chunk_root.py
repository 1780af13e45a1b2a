"""Refuses to go on without the file system that holds the chunks.

Another file system may be mounted where the chunks are. Without it everything seems to be lost, and what
is written meanwhile is hidden once it is mounted again: acknowledged bytes would be gone. A file beside the
chunks, made before anything else is, distinguishes the two.

Format page: ``docs/formats/data-directory.md``.
"""

from __future__ import annotations

import os
from posixpath import dirname

from headrace.errors import DataCorruptionError
from headrace.runtime.filesystem import Filesystem
from headrace.storage.providers.files.chunk_paths import FILE_SUFFIX, PROOF, is_chunk_entry


def chunk_root(directory: str) -> str:
    """Return where the chunks of a data directory are, unless another store was chosen."""
    return f"{directory}/chunks"


def proof_of(root: str) -> str:
    """Return the file without which nothing new is made where the chunks are."""
    return f"{root}/{PROOF}"


def make_chunk_root(files: Filesystem, root: str) -> None:
    """Make the directory of the chunks, and the proof, durably; what is there already stays."""
    if not files.exists(root):
        files.mkdir(root)
        files.fsync_directory(dirname(root) or ".")
    descriptor = files.open(proof_of(root), os.O_WRONLY | os.O_CREAT)
    try:
        files.fsync(descriptor)
    finally:
        files.close(descriptor)
    files.fsync_directory(root)


def check_chunk_root(files: Filesystem, root: str) -> None:
    """Look for the proof where a server that was used has its chunks; chunks without one get it.

    Raises:
        DataCorruptionError: there is neither.
    """
    proof = proof_of(root)
    if files.exists(proof):
        return
    if not files.exists(root) or not _has_chunks(files, root):
        raise DataCorruptionError(
            "there are no chunks where this server kept them: mount their file system, or put them back; if "
            "they are lost for good, or there never were any, make this file",
            path=proof,
        )
    make_chunk_root(files, root)


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
