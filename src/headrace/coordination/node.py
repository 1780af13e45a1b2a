"""A node of the coordination, as it was read, and what its path, data and version may be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.errors import InvalidArgumentError

DATA_BYTES_MAX: Final = 512 * 1024
"""Of one node."""
PATH_CHARS_MAX: Final = 1024
"""Of one path, without what an implementation puts in front of it."""
_VERSION_MAX: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Node:
    """What a node holds, and the version under which it may be changed. A new node has version 0."""

    data: bytes
    version: int


def check_path(path: str) -> None:
    """Raises InvalidArgumentError."""
    names = path.split("/")
    if not all(name and name.isascii() and name.isprintable() and name not in {".", ".."} for name in names):
        raise InvalidArgumentError(f"{path!r} is no path of a node: names of printable ASCII, joined by /")
    if len(path) > PATH_CHARS_MAX:
        raise InvalidArgumentError(
            f"a path of {len(path)} characters is longer than the {PATH_CHARS_MAX} that a node may have"
        )


def check_data(data: bytes) -> None:
    """Raises InvalidArgumentError."""
    if len(data) > DATA_BYTES_MAX:
        raise InvalidArgumentError(f"{len(data)} bytes are more than the {DATA_BYTES_MAX} that a node holds")


def check_version(version: int) -> None:
    """Raises InvalidArgumentError: no node has it. (To ZooKeeper -1 is every version.)."""
    if not 0 <= version <= _VERSION_MAX:
        raise InvalidArgumentError(f"{version} is no version of a node: 0 to {_VERSION_MAX}")


def parents_of(path: str) -> list[str]:
    """Return the paths above, the shortest first."""
    names = path.split("/")
    return ["/".join(names[:count]) for count in range(1, len(names))]
