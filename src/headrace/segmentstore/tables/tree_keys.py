"""Keys of a table as its index has them: all of the same length.

The index of a hash table is ordered by a hash of 128 bits, that of a table with keys of fixed length by the
keys. The hash is keyed by a number that the table got when it was created, so that clients cannot choose keys
that collide.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

HASH_BYTES: Final = 16
SEED_BITS: Final = 62


class TreeKeys:
    """Makes tree keys of one table. ``key_length`` 0: a hash table."""

    __slots__ = ("_hash", "key_bytes", "key_length")

    def __init__(self, key_length: int, seed: int) -> None:
        self.key_length = key_length
        self.key_bytes = key_length or HASH_BYTES
        """Bytes of a tree key."""
        secret = seed.to_bytes(8, "big") if seed else b""
        self._hash = blake2b(digest_size=HASH_BYTES, key=secret)

    def of(self, key: bytes) -> bytes:
        """Return the tree key of a key, which has the length that the table demands."""
        if self.key_length:
            assert len(key) == self.key_length
            return key
        hasher = self._hash.copy()
        hasher.update(key)
        return hasher.digest()

    def find(self, key: bytes) -> bytes | None:
        """Return the tree key of any bytes; None if they cannot be a key of this table."""
        return self.of(key) if len(key) == self.key_length or not self.key_length else None

    def of_all(self, keys: Iterable[bytes]) -> list[bytes]:
        return list(map(self.of, keys))

    @property
    def first(self) -> bytes:
        """The lowest tree key that there can be."""
        return bytes(self.key_bytes)

    @property
    def last(self) -> bytes:
        """The highest one."""
        return b"\xff" * self.key_bytes

    def behind(self, tree_key: bytes) -> bytes | None:
        """Return the next higher tree key; None behind the last one."""
        if tree_key == self.last:
            return None
        return (int.from_bytes(tree_key, "big") + 1).to_bytes(self.key_bytes, "big")

    def lowest(self, bound: bytes) -> bytes | None:
        """Return the lowest tree key that is not below ``bound``, which may have any length."""
        if len(bound) <= self.key_bytes:
            return bound.ljust(self.key_bytes, b"\x00")
        return self.behind(bound[: self.key_bytes])

    def highest(self, bound: bytes) -> bytes | None:
        """Return the highest tree key that is not above ``bound``, which may have any length."""
        if len(bound) >= self.key_bytes:
            return bound[: self.key_bytes]
        number = int.from_bytes(bound.ljust(self.key_bytes, b"\x00"), "big")
        # A key that begins with the bound is above it, unless it is the bound.
        return (number - 1).to_bytes(self.key_bytes, "big") if number else None
