"""Why a connection does not dispatch received bytes: bits in plain integers, since every read checks them."""

from __future__ import annotations

from typing import Final

CAPACITY: Final = 1
"""The container does not accept the next append yet."""
OUTBOX: Final = 2
"""The client does not take its replies."""
REQUESTS: Final = 4
"""Too many requests of this connection run."""
ADMISSION: Final = 8
"""The next request waits for its lease."""
YIELDING: Final = 16
"""The connection yields to the loop: to a request that takes its first step, and to other connections."""
CLOSING: Final = 32
SETUP: Final = 64
"""The last event number of a writer is not known yet; its appends follow in this buffer."""
MEMORY: Final = 128
"""A large wire frame waits for its lease."""

_NAMES: Final = ("capacity", "outbox", "requests", "admission", "turn", "closing", "setup", "memory")


def names_of(reasons: int) -> list[str]:
    """Return the names of these reasons in statistics."""
    return [name for bit, name in enumerate(_NAMES) if reasons & 1 << bit]
