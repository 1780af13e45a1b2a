"""The commands that errors advise, whole: with the directory and the store that they are about, as a shell
reads them. What is said is copied and run, so it has to work as it stands.
"""

from __future__ import annotations

import shlex
from os.path import abspath
from typing import Final

from headrace.data_directory.chunk_root import chunk_root
from headrace.data_directory.record import find_used_log, recorded_cluster
from headrace.runtime.filesystem import Filesystem
from headrace.storage.providers.files.chunk_paths import is_chunk_entry
from headrace.storage.providers.location import StorageLocation

_BESIDE: Final = ".rebuilt"
_PLACES_MAX: Final = 1000


def rebuild_command(source: StorageLocation | str, directory: str, at_ms: int | None = None) -> str:
    """Return the command that makes ``directory`` anew from the store ``source``."""
    words = ["headrace", "storage", "rebuild", "--storage", str(source), "--data-dir", directory]
    return _quoted(words if at_ms is None else [*words, "--at", str(at_ms)])


def serve_command(files: Filesystem, directory: str, cluster: str = "") -> str:
    """Return the command that starts a server on ``directory``, with the store of its record: one that is
    alone, or a segment store of the ``cluster`` that is known, or that the record names.
    """
    cluster = cluster or recorded_cluster(files, directory)
    if cluster:
        return _quoted(["headrace", "segmentstore", "--coordinator", cluster])
    return _quoted(["headrace", "standalone", "--data-dir", directory])


def segmentstore_command(cluster: str) -> str:
    """Return the command that starts a store of the cluster at ``cluster``."""
    return _quoted(["headrace", "segmentstore", "--coordinator", cluster])


def init_command(cluster: str, directory: str) -> str:
    """Return the command that makes ``directory`` that of a cluster at ``cluster``."""
    place = abspath(directory)  # noqa: PTH100 - paths are str here
    return _quoted(["headrace", "cluster", "init", "--coordinator", cluster, "--from-data-dir", place])


def advised_rebuild(files: Filesystem, source: StorageLocation, directory: str) -> str:
    """Return the command that rebuilds the system of a store: in ``directory``, or beside it if a rebuild
    would be refused there.
    """
    return rebuild_command(source, find_vacant(files, source, directory))


def find_vacant(files: Filesystem, source: StorageLocation, directory: str) -> str:
    """Return ``directory`` if it has no log, and no chunks but those of ``source``; else one beside it that
    does not exist.
    """
    if find_used_log(files, directory) is None and not has_other_chunks(files, source, directory):
        return directory
    beside = directory.rstrip("/") + _BESIDE
    places = (beside, *(f"{beside}-{number}" for number in range(2, _PLACES_MAX)))
    return next((place for place in places if not files.exists(place)), beside)


def has_other_chunks(files: Filesystem, source: StorageLocation, directory: str) -> bool:
    """Whether there are chunks in a data directory, and ``source`` is another store."""
    root = chunk_root(directory)
    if source == file_location(root) or not files.exists(root):
        return False
    return any(map(is_chunk_entry, files.listdir(root)))


def file_location(root: str) -> StorageLocation:
    """Return the store whose chunks are files below ``root``, also if that is no absolute path."""
    return StorageLocation("file", prefix=abspath(root))  # noqa: PTH100 - paths are str here


def _quoted(words: list[str]) -> str:
    return " ".join(map(_quote, words))


def _quote(word: str) -> str:
    """Quote a word so that it stays what it is on one line of text, whose spaces may be joined."""
    if word.isprintable() and word == " ".join(word.split()):
        return shlex.quote(word)
    safe = "".join(
        char
        if char.isprintable() and char not in " '\\"
        else "".join(f"\\x{b:02x}" for b in char.encode("utf-8", "surrogateescape"))
        for char in word
    )
    return f"$'{safe}'"
