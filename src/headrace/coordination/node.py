"""A node of the coordination, as it was read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

DATA_BYTES_MAX: Final = 512 * 1024
"""Of one node."""


@dataclass(frozen=True, slots=True)
class Node:
    """What a node holds, and the version under which it may be changed. A new node has version 0."""

    data: bytes
    version: int
