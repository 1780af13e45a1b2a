"""Random numbers as a parameter: a seed then repeats every choice of the program."""

from __future__ import annotations

import os
import random
from typing import Final, Protocol

_UNIT: Final = 2.0**-53


class Entropy(Protocol):
    """A source of choices. One owner per instance: seeds repeat only if calls come in the same order."""

    def uuid4_bytes(self) -> bytes:
        """Return the 16 bytes of a fresh version 4 UUID (RFC 4122)."""

    def random(self) -> float:
        """Return a number, uniform in [0, 1)."""

    def randbelow(self, n: int) -> int:
        """Return an integer, uniform in [0, n); ``n`` is at least 1."""

    def token(self, n: int) -> bytes:
        """Return ``n`` random bytes."""


def _as_uuid4(raw: bytes) -> bytes:
    """Set version and variant bits of 16 random bytes."""
    value = bytearray(raw)
    value[6] = (value[6] & 0x0F) | 0x40
    value[8] = (value[8] & 0x3F) | 0x80
    return bytes(value)


class SystemEntropy:
    """The operating system's cryptographic generator."""

    __slots__ = ("_random",)

    def __init__(self) -> None:
        self._random = random.SystemRandom()

    def uuid4_bytes(self) -> bytes:
        return _as_uuid4(os.urandom(16))

    def random(self) -> float:
        return (int.from_bytes(os.urandom(7), "big") >> 3) * _UNIT

    def randbelow(self, n: int) -> int:
        return self._random.randrange(n)

    def token(self, n: int) -> bytes:
        return os.urandom(n)


class SeededEntropy:
    """The same choices in every process for the same seed. For tests and simulation, never for secrets."""

    __slots__ = ("_random", "seed")

    def __init__(self, seed: int | str) -> None:
        self.seed = seed
        # A str is hashed by sha512, not by the process's hash seed.
        self._random = random.Random(str(seed))  # noqa: S311 - repeatable on purpose

    def uuid4_bytes(self) -> bytes:
        return _as_uuid4(self._random.randbytes(16))

    def random(self) -> float:
        return self._random.random()

    def randbelow(self, n: int) -> int:
        return self._random.randrange(n)

    def token(self, n: int) -> bytes:
        return self._random.randbytes(n)

    def fork(self, name: str) -> SeededEntropy:
        """Return an independent source that depends on the seed and ``name`` only, not on earlier draws.

        One fork per component keeps a new draw in one of them from changing the choices of all others.
        """
        return SeededEntropy(f"{self.seed}/{name}")
