"""Whether ``crc32c`` releases the interpreter lock (GIL) while it sums.

A sum takes 65 us for a MiB; acquiring the lock again beside a busy loop takes up to half a millisecond. So
small sums do not release it.
"""

from __future__ import annotations

from typing import Final

_RELEASE_AUTO: Final = -1
_RELEASE_NEVER: Final = 0


def release_mode(size_bytes: int, hold_bytes_max: int) -> int:
    """Return the mode of sums over ``size_bytes`` in all; up to ``hold_bytes_max`` the lock is held."""
    return _RELEASE_NEVER if size_bytes <= hold_bytes_max else _RELEASE_AUTO
