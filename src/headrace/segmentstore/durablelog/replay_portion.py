"""How much of a log is replayed in one turn of the loop.

Recovery is work for the processor, a second for some hundred thousand operations. Other containers and their
connections live on the same loop, so it goes on in portions. They are counted in operations and bytes, not
timed: what is done in which turn follows from the log alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.limits import KIB, MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayPortion:
    """Bounds of a portion; the first that is reached ends it. Sized for a turn of five milliseconds."""

    operations_max: int = 500
    """Operations, or rows of a checkpoint. One takes 8 us or so."""

    bytes_max: int = 4 * MIB
    """Bytes of the log. A MiB takes half a millisecond to read, to check and to copy into the cache."""

    row_bytes_max: int = 256 * KIB
    """Bytes of segment rows, which are made of small values: up to a quarter of a million in one row."""
