"""Has the check of a stopped container look at what a simulation has left."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from headrace.runtime.filesystem import Filesystem
from headrace.segmentstore.inspection.container_check import check_container
from headrace.segmentstore.inspection.object_check import find_strays
from headrace.segmentstore.segment_names import segment_id_of
from headrace.storage.chunks.chunk_names import parse_chunk_name
from headrace.storage.inspect import ChunkFiles
from headrace.storage.providers.files.chunk_paths import encode_chunk_path
from headrace.testing.disk import SimulatedDisk
from headrace.testing.failures import SimulationError
from headrace.testing.filesystem import SimulatedFilesystem
from headrace.wal.file.logs import FoundFileLog

_COPIES: Final = "/data/copies-of-objects"


def check_offline(
    disk: SimulatedDisk,
    log_directory: str,
    objects: Mapping[str, bytearray],
    segments: Mapping[str, int] | None,
) -> None:
    """Check log, rows and every byte of a container whose chunks are ``objects``.

    Of objects that are not needed those are fine that were made for a namesake, gone by now, of one of the
    ``segments`` that there are, by name and with their ids: an owner takes them for chunks of an inactive
    segment. Without ``segments`` all are fine.

    Raises:
        SimulationError: the check has found anything else.
    """
    files = SimulatedFilesystem(disk)
    _remove(files, _COPIES)
    for name, content in objects.items():
        _put(files, f"{_COPIES}/{encode_chunk_path(name)}", content)
    chunks = ChunkFiles(_COPIES, files)
    report = check_container(0, FoundFileLog(log_directory, files), chunks, deep=True)
    found = list(report.findings)
    if segments is not None:
        excused = {chunks.path(name) for name in objects if _is_of_namesake(name, segments)}
        strays = find_strays(chunks, [report], all_checked=True)
        found += (stray for stray in strays if stray.place not in excused)
    if found or not report.complete:
        raise SimulationError(f"the check has found {[str(finding) for finding in found]}")


def _is_of_namesake(chunk: str, segments: Mapping[str, int]) -> bool:
    parsed = parse_chunk_name(chunk)
    if parsed is None:
        return False
    segment_id = segments.get(parsed.segment.rpartition(".")[0])
    return segment_id is not None and segment_id != segment_id_of(parsed.segment)


def _remove(files: Filesystem, path: str) -> None:
    """Remove the files below a directory; directories may stay."""
    for name in files.listdir(path) if files.exists(path) else ():
        try:
            files.unlink(f"{path}/{name}")
        except OSError:
            _remove(files, f"{path}/{name}")


def _put(files: Filesystem, path: str, content: bytes | bytearray) -> None:
    parts = path.split("/")
    for count in range(2, len(parts)):
        if not files.exists(directory := "/".join(parts[:count])):
            files.mkdir(directory)
    fd = files.open(path, os.O_CREAT | os.O_WRONLY)
    files.pwrite(fd, content, 0)
    files.close(fd)
