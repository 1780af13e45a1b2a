"""How the transactions of one block of ids ended: two bitmaps.

A block is 1024 ids that differ in their last ten bits only. Source: ``docs/formats/controller-rows.md``,
"F: finished transactions".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from headrace.errors import DataCorruptionError
from headrace.model.fields import FieldReader, FieldWriter

KIND: Final = b"F"
VERSION: Final = 1
BLOCK_BITS: Final = 10
BLOCK_IDS: Final = 1 << BLOCK_BITS
_BITMAP_BYTES: Final = BLOCK_IDS // 8


@dataclass(frozen=True, slots=True)
class OutcomeRow:
    """Bit n stands for the n-th id of the block. No id is in both maps."""

    committed: int = 0
    aborted: int = 0

    def find(self, offset: int) -> bool | None:
        """Return True for committed, False for aborted, None for not finished."""
        bit = 1 << offset
        if self.committed & bit:
            return True
        return False if self.aborted & bit else None

    def newest(self) -> Iterator[tuple[int, bool]]:
        """Yield (offset, committed) from the highest offset down."""
        known = self.committed | self.aborted
        while known:
            offset = known.bit_length() - 1
            known ^= 1 << offset
            yield offset, bool(self.committed >> offset & 1)

    def check(self) -> None:
        assert not self.committed & self.aborted


def encode_outcomes(row: OutcomeRow) -> bytes:
    row.check()
    writer = FieldWriter(KIND, VERSION)
    writer.fixed(row.committed.to_bytes(_BITMAP_BYTES, "little"))
    writer.fixed(row.aborted.to_bytes(_BITMAP_BYTES, "little"))
    return writer.to_bytes()


def decode_outcomes(data: bytes) -> OutcomeRow:
    """Raises DataCorruptionError."""
    reader = FieldReader(data, KIND, (VERSION,))
    row = OutcomeRow(
        int.from_bytes(reader.fixed(_BITMAP_BYTES), "little"),
        int.from_bytes(reader.fixed(_BITMAP_BYTES), "little"),
    )
    reader.end()
    if row.committed & row.aborted:
        raise DataCorruptionError("a transaction ended both ways")
    return row
