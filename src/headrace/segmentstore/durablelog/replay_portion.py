"""How much of a log is replayed, or written as a checkpoint, in one turn of the loop.

Recovery is work for the processor, a second for some hundred thousand operations. Other containers and their
connections live on the same loop, so it goes on in portions. They are counted in operations, not timed: what
is done in which turn follows from the log alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.limits import KIB

LOG_BYTES: Final = 8 * KIB
"""So much of the log takes as long to read, check and copy into the cache as an operation, 8 us or so."""
ROW_BYTES: Final = 512
"""So much of a segment's row, which is made of small values: up to a quarter of a million in one row."""


@dataclass(slots=True)
class ReplayPortion:
    """A portion being spent: of operations, rows of a checkpoint, and what takes as long as one."""

    operations_max: int = 500
    spent: int = 0

    def is_full(self) -> bool:
        """Whether others should have their turn. The next portion begins then."""
        if self.spent < self.operations_max:
            return False
        self.spent = 0
        return True
