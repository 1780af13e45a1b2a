"""What a log holds, in three numbers: two logs with the same ones have the same records. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Final

from crc32c import crc32c

_LENGTH: Final = Struct(">I")


@dataclass(slots=True)
class Contents:
    """Of records in order; what ends a log that was moved does not count."""

    records: int = 0
    size: int = 0
    """Bytes of all."""
    checksum: int = 0
    """crc32c of each record behind its length in four bytes."""

    def add(self, record: bytes | memoryview) -> None:
        """Count the next record."""
        self.records += 1
        self.size += len(record)
        self.checksum = crc32c(record, crc32c(_LENGTH.pack(len(record)), self.checksum))

    def __str__(self) -> str:
        return f"{self.records} records with {self.size} bytes, checksum {self.checksum:08x}"
