"""The files of a log, for ``headrace inspect wal``: that verb shows what each file holds, so it is for logs
in files only. Every other look at a log goes through ``logs``.
"""

from __future__ import annotations

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
    """Return the files that a snapshot was made of."""
    assert isinstance(snapshot, FileLogSnapshot)
    return snapshot.log
