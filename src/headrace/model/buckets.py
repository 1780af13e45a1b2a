"""Which bucket a stream belongs to. Source: protocol, "Buckets of background services"."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

_INT32_MASK: Final = 0x7FFF_FFFF


def string_hash(text: str) -> int:
    """Return the hash of Java strings, as a signed 32-bit number: h = 31 * h + code unit, from the left."""
    value = 0
    units = text.encode("utf-16-be")
    for index in range(0, len(units), 2):
        value = (31 * value + (units[index] << 8 | units[index + 1])) & 0xFFFF_FFFF
    return value - (1 << 32) if value > _INT32_MASK else value


@lru_cache(maxsize=4096)
def bucket_of(scope: str, name: str, bucket_count: int) -> int:
    """Return the bucket of ``scope/name``, from 0 to ``bucket_count`` - 1."""
    return (string_hash(f"{scope}/{name}") & _INT32_MASK) % bucket_count
