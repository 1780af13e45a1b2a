"""Keys of one table as bytes: primary and secondary part, neighbours, and bounds of ranges. Pure.

Source: protocol, "Key-value tables".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from headrace.errors import InvalidArgumentError

Key = bytes | tuple[bytes, bytes]
"""The primary key in a table without secondary keys, else the pair of both."""

Given = bytes | str
"""Bytes, or text for its UTF-8: what is given. What is read is bytes, whoever wrote it."""
GivenKey = Given | tuple[Given, Given]


class KeyBounds(NamedTuple):
    """The first and the last whole key of a range, both part of it; in front of a first one lies none."""

    first: bytes
    last: bytes


@dataclass(frozen=True, slots=True)
class KeyLayout:
    """How many bytes each part of a key has."""

    primary_bytes: int
    secondary_bytes: int

    @property
    def size_bytes(self) -> int:
        return self.primary_bytes + self.secondary_bytes

    def join(self, key: Any) -> bytes:
        """Return a key as the bytes that the server knows it by.

        Raises:
            InvalidArgumentError: it is no key of the table.
        """
        if not isinstance(key, tuple):
            if self.secondary_bytes:
                raise InvalidArgumentError(
                    "a key of this table is a pair: (primary key, secondary key), "
                    f"{self.primary_bytes} and {self.secondary_bytes} bytes"
                )
            return _exactly(key, self.primary_bytes, "primary")
        if len(key) != 2:
            raise InvalidArgumentError(f"a key has two parts, not {len(key)}")
        primary, secondary = key
        return _exactly(primary, self.primary_bytes, "primary") + _exactly(
            secondary, self.secondary_bytes, "secondary"
        )

    def split(self, data: bytes) -> Key:
        """Return the key that the server knows as ``data``."""
        if not self.secondary_bytes:
            return data
        return data[: self.primary_bytes], data[self.primary_bytes :]

    def primary_of(self, data: bytes) -> bytes:
        """Return the primary part of a whole key."""
        return data[: self.primary_bytes]

    def bounds(
        self,
        primary: Given | None = None,
        first: Given | None = None,
        last: Given | None = None,
        prefix: Given | None = None,
    ) -> KeyBounds:
        """Return the bounds of a range of primary keys, or of secondary keys of the given primary one.

        Args:
            primary: the only primary key of the range.
            first: where it begins; shorter than a key is filled with 00.
            last: where it ends, itself included; shorter than a key is filled with FF.
            prefix: what all its keys begin with, instead of ``first`` and ``last``.

        Raises:
            InvalidArgumentError: a part is too long, or the range ends before it begins.
        """
        if prefix is not None:
            if first is not None or last is not None:
                raise InvalidArgumentError("a range has a prefix, or a first and a last key")
            first = last = prefix
        front, size, what = b"", self.primary_bytes, "primary"
        if primary is not None:
            front, size, what = (
                _exactly(primary, self.primary_bytes, "primary"),
                self.secondary_bytes,
                "secondary",
            )
        low = _at_most(first or b"", size, what).ljust(size, b"\x00")
        high = _at_most(last or b"", size, what).ljust(size, b"\xff")
        if low > high:
            raise InvalidArgumentError(f"the range ends with {high.hex()}, before its first key {low.hex()}")
        return KeyBounds(
            (front + low).ljust(self.size_bytes, b"\x00"), (front + high).ljust(self.size_bytes, b"\xff")
        )


def next_key(key: bytes) -> bytes | None:
    """Return the key right behind ``key`` among those of its length; None: it is the last one."""
    number = int.from_bytes(key) + 1
    return None if number >> 8 * len(key) else number.to_bytes(len(key))


def as_bytes(given: Any, what: str) -> bytes:
    """Return what a caller gave as bytes; a text is its UTF-8.

    Raises:
        InvalidArgumentError: it is something else, or a text that has no UTF-8.
    """
    if isinstance(given, bytes):
        return given
    if isinstance(given, str):
        try:
            return given.encode()
        except UnicodeEncodeError:
            raise InvalidArgumentError(f"a {what} that is a text has UTF-8, {given!r:.60} has none") from None
    if isinstance(given, bytearray | memoryview):
        return bytes(given)
    raise InvalidArgumentError(f"a {what} is bytes or text, not {type(given).__name__}")


def _exactly(given: Any, size: int, what: str) -> bytes:
    part = as_bytes(given, f"{what} key")
    if len(part) != size:
        raise InvalidArgumentError(f"a {what} key of this table has {size} bytes, not {len(part)}")
    return part


def _at_most(given: Any, size: int, what: str) -> bytes:
    part = as_bytes(given, f"{what} key")
    if len(part) > size:
        raise InvalidArgumentError(f"a {what} key of this table has {size} bytes, not {len(part)}")
    return part
