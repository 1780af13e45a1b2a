"""The files of a log, for ``headrace inspect wal``: that verb shows what each file holds, so it is for logs
in files only. Every other look at a log goes through ``logs``.
"""

from __future__ import annotations

from headrace.errors import UnsupportedError
from headrace.wal.file.inspection import (
    InspectedFile,
    InspectedLog,
    InspectedRecord,
    RecordStatus,
    inspect_log,
    inspect_records,
)
from headrace.wal.file.log_snapshot import FileLogSnapshot
from headrace.wal.logs import LogSnapshot

__all__ = [
    "InspectedFile",
    "InspectedLog",
    "InspectedRecord",
    "RecordStatus",
    "inspect_log",
    "inspect_records",
    "inspected",
]


def inspected(snapshot: LogSnapshot) -> InspectedLog:
    """Return the files that a snapshot was made of.

    Raises:
        UnsupportedError: the log is not in files.
    """
    if not isinstance(snapshot, FileLogSnapshot):
        raise UnsupportedError(
            f"the log {snapshot.place} is in no files: `headrace inspect frames` shows what it holds"
        )
    return snapshot.log
