"""Tier 1: the write-ahead logs. ``contract`` says what they promise; ``FileWal`` and ``MemoryWal`` are
implementations.
"""

from headrace.wal.config import WalConfig
from headrace.wal.contract import Wal, WalFrame, WalRecord, WalStatistics
from headrace.wal.file.file_wal import FileWal
from headrace.wal.memory import MemoryLogStore, MemoryWal

__all__ = [
    "FileWal",
    "MemoryLogStore",
    "MemoryWal",
    "Wal",
    "WalConfig",
    "WalFrame",
    "WalRecord",
    "WalStatistics",
]
