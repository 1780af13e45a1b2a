"""The write-ahead log on local files."""

from headrace.wal.file.file_wal import FileWal

__all__ = ["FileWal"]
