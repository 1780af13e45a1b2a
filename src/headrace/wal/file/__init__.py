"""The write-ahead log on local files: fenced by an owner record, synchronous, recycled, recovered."""

from headrace.wal.file.file_wal import FileWal

__all__ = ["FileWal"]
