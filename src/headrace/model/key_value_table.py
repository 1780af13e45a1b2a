"""What a key-value table is made with: a plain value.

Source: protocol, "Key-value tables".
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.errors import InvalidArgumentError
from headrace.limits import INT64_MAX, TABLE_KEY_BYTES_MAX

_PARTITIONS_MAX = (1 << 31) - 1
"""Of the protocol; servers have lower ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyValueTableConfiguration:
    """Set when a table is created, and never changed.

    Every primary key has ``primary_key_bytes`` bytes and decides the partition; every secondary key has
    ``secondary_key_bytes``, and tables with 0 have none. ``rollover_bytes`` bounds the chunks of a partition
    in long-term storage; 0 leaves it to the server.
    """

    partitions: int = 1
    primary_key_bytes: int
    secondary_key_bytes: int = 0
    rollover_bytes: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.partitions <= _PARTITIONS_MAX:
            raise InvalidArgumentError(f"a key-value table cannot have {self.partitions} partitions")
        if self.primary_key_bytes < 1 or self.secondary_key_bytes < 0:
            raise InvalidArgumentError("a primary key has at least 1 byte, a secondary key 0 or more")
        both = self.primary_key_bytes + self.secondary_key_bytes
        if both > TABLE_KEY_BYTES_MAX:
            raise InvalidArgumentError(
                f"both keys together have {both} bytes, more than the limit of {TABLE_KEY_BYTES_MAX}"
            )
        if not 0 <= self.rollover_bytes <= INT64_MAX:
            raise InvalidArgumentError(f"chunks cannot have {self.rollover_bytes} bytes")
