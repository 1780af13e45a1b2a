"""MurmurHash3 (x64, 128 bits) and jump consistent hashing, as every client of the protocol uses them.

The seed is a signed 32-bit number that is sign-extended into both lanes; common packages zero-extend it,
which
is why the function is here. Source: protocol, "Routing-key hash" and "Naming and container mapping"; pinned
by ``tests/golden/hashing``.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Final

from headrace.model.names import container_key

_MASK: Final = (1 << 64) - 1
_C1: Final = 0x87C3_7B91_1142_53D5
_C2: Final = 0x4CF5_AD43_2745_937F

SEED_CONTAINER: Final = 1661405012
SEED_ROUTING_KEY: Final = 1741865571
SEED_TABLE_KEY: Final = -2020233499


def _rotate(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (64 - bits))) & _MASK


def _finalise(value: int) -> int:
    value ^= value >> 33
    value = value * 0xFF51_AFD7_ED55_8CCD & _MASK
    value ^= value >> 33
    value = value * 0xC4CE_B9FE_1A85_EC53 & _MASK
    return value ^ (value >> 33)


def murmur3(data: bytes, seed: int) -> tuple[int, int]:
    """Return both 64-bit words of the hash of ``data``; ``seed`` is signed 32-bit."""
    h1 = h2 = seed & _MASK
    blocks = len(data) // 16
    for index in range(blocks):
        k1, k2 = struct.unpack_from("<QQ", data, 16 * index)
        h1 ^= _rotate(k1 * _C1 & _MASK, 31) * _C2 & _MASK
        h1 = ((_rotate(h1, 27) + h2) * 5 + 0x52DC_E729) & _MASK
        h2 ^= _rotate(k2 * _C2 & _MASK, 33) * _C1 & _MASK
        h2 = ((_rotate(h2, 31) + h1) * 5 + 0x3849_5AB5) & _MASK
    tail = data[16 * blocks :]
    if len(tail) > 8:
        h2 ^= _rotate(int.from_bytes(tail[8:], "little") * _C2 & _MASK, 33) * _C1 & _MASK
    if tail:
        h1 ^= _rotate(int.from_bytes(tail[:8], "little") * _C1 & _MASK, 31) * _C2 & _MASK
    h1 ^= len(data)
    h2 ^= len(data)
    h1 = (h1 + h2) & _MASK
    h2 = (h2 + h1) & _MASK
    h1, h2 = _finalise(h1), _finalise(h2)
    h1 = (h1 + h2) & _MASK
    return h1, (h2 + h1) & _MASK


def jump_hash(state: int, bucket_count: int) -> int:
    """Map a 64-bit state to one of ``bucket_count`` buckets so that growth moves the fewest keys."""
    bucket, candidate = -1, 0
    while candidate < bucket_count:
        bucket = candidate
        state = (state * 2862933555777941757 + 1) & _MASK
        candidate = int((bucket + 1) * (float(1 << 31) / ((state >> 33) + 1)))
    return bucket


@lru_cache(maxsize=65536)
def container_of(segment: str, container_count: int) -> int:
    """Return the container that owns ``segment``: a transaction's shadow lives with its parent."""
    return jump_hash(murmur3(container_key(segment).encode("utf-16-le"), SEED_CONTAINER)[0], container_count)
