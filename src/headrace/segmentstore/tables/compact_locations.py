"""Locations by key without the keys: some forty bytes for each, in a few large objects.

Keys are distinguished by 128 bits of a cryptographic hash. They cannot be listed, so this is for tables that
are never iterated.

Linear hashing: a bucket is an array of records ``hash, location`` of 16 bytes each. While there are too many
records, buckets are split in two, one after the other, so no single change takes long.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Final

_HASH_BYTES: Final = 16
_RECORD_BYTES: Final = 32
_PLACE_BYTES: Final = 8
"""Of a hash, the number from whose low bits its bucket follows."""
_BUCKET_RECORDS: Final = 24
"""On average, before another bucket is split: fewer take more memory, more take longer to search."""
_BUCKET_OVERHEAD_BYTES: Final = 96


class CompactLocations:
    """A dict from bytes to integers of up to 128 bits, as far as a table needs one."""

    __slots__ = ("_buckets", "_count", "_low", "_split")

    def __init__(self) -> None:
        self._buckets = [bytearray()]
        self._count = 0
        self._low = 1
        """Buckets of this round, a power of two; those below ``_split`` have been split into two."""
        self._split = 0

    def __len__(self) -> int:
        return self._count

    @property
    def memory_bytes(self) -> int:
        """An estimate."""
        return self._count * _RECORD_BYTES * 17 // 16 + len(self._buckets) * _BUCKET_OVERHEAD_BYTES

    def get(self, key: bytes, default: int) -> int:
        digest = blake2b(key, digest_size=_HASH_BYTES).digest()
        bucket = self._buckets[self._place(digest)]
        at = _search(bucket, digest)
        return default if at < 0 else _location(bucket, at)

    def swap(self, key: bytes, location: int, default: int) -> int:
        """Set the location of ``key``; return the one it had."""
        digest = blake2b(key, digest_size=_HASH_BYTES).digest()
        bucket = self._buckets[self._place(digest)]
        at = _search(bucket, digest)
        data = location.to_bytes(_RECORD_BYTES - _HASH_BYTES, "big")
        if at >= 0:
            before = _location(bucket, at)
            bucket[at + _HASH_BYTES : at + _RECORD_BYTES] = data
            return before
        bucket += digest + data
        self._count += 1
        if self._count > len(self._buckets) * _BUCKET_RECORDS:
            self._split_next()
        return default

    def pop(self, key: bytes, default: int) -> int:
        """Forget ``key``; return its location. Its memory is used for other keys."""
        digest = blake2b(key, digest_size=_HASH_BYTES).digest()
        bucket = self._buckets[self._place(digest)]
        at = _search(bucket, digest)
        if at < 0:
            return default
        location = _location(bucket, at)
        bucket[at : at + _RECORD_BYTES] = bucket[-_RECORD_BYTES:]
        del bucket[-_RECORD_BYTES:]
        self._count -= 1
        return location

    def values(self) -> Iterator[int]:
        """Iterate over the locations, in no particular order."""
        for bucket in self._buckets:
            for at in range(0, len(bucket), _RECORD_BYTES):
                yield _location(bucket, at)

    def _place(self, digest: bytes | bytearray) -> int:
        """Return the bucket of a hash."""
        number = int.from_bytes(digest[:_PLACE_BYTES], "big")
        place = number & (self._low - 1)
        return number & (2 * self._low - 1) if place < self._split else place

    def _split_next(self) -> None:
        """Move half of the records of one bucket into a new one."""
        whole = self._buckets[self._split]
        left, right = bytearray(), bytearray()
        shift = self._low.bit_length() - 1  # the one bit of the hash that decides
        byte, mask = _PLACE_BYTES - 1 - shift // 8, 1 << shift % 8
        for at in range(0, len(whole), _RECORD_BYTES):
            half = right if whole[at + byte] & mask else left
            half += whole[at : at + _RECORD_BYTES]
        self._buckets[self._split] = left
        self._buckets.append(right)
        self._split += 1
        if self._split == self._low:
            self._low *= 2
            self._split = 0

    def check(self) -> None:
        """Assert the invariants. Touches every record."""
        assert self._low & (self._low - 1) == 0
        assert 0 <= self._split < self._low
        assert len(self._buckets) == self._low + self._split
        assert self._count == sum(map(len, self._buckets)) // _RECORD_BYTES
        seen: set[bytes] = set()
        for number, bucket in enumerate(self._buckets):
            assert len(bucket) % _RECORD_BYTES == 0
            for at in range(0, len(bucket), _RECORD_BYTES):
                digest = bytes(bucket[at : at + _HASH_BYTES])
                assert self._place(digest) == number
                assert digest not in seen
                seen.add(digest)


def _search(bucket: bytearray, digest: bytes) -> int:
    """Return where the record of a hash begins, -1 if there is none."""
    at = bucket.find(digest)
    while at > 0 and at % _RECORD_BYTES:
        at = bucket.find(digest, at + 1)  # the bytes of other records looked the same
    return at


def _location(bucket: bytearray, at: int) -> int:
    return int.from_bytes(bucket[at + _HASH_BYTES : at + _RECORD_BYTES], "big")
