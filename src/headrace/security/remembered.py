"""Credentials that were right a short while ago. Pure: the time is an argument.

A header is known by a keyed digest of it, so that this memory holds no secret.
"""

from __future__ import annotations


class Remembered:
    """Users by the digest of their header: at most ``count_max``, each for ``lifetime_s`` since its check."""

    __slots__ = ("_count_max", "_lifetime_s", "_users")

    def __init__(self, count_max: int, lifetime_s: float) -> None:
        assert count_max >= 1
        self._count_max = count_max
        self._lifetime_s = lifetime_s
        self._users: dict[bytes, tuple[float, str]] = {}
        """In the order of their checks, hence of their ends."""

    def __len__(self) -> int:
        return len(self._users)

    def find(self, digest: bytes, now_s: float) -> str | None:
        """Return the user, or None if the credentials must be checked."""
        self._forget_old(now_s)
        found = self._users.get(digest)
        return None if found is None else found[1]

    def add(self, digest: bytes, user: str, now_s: float) -> None:
        """Remember credentials that have just been checked; forget the oldest if there are too many."""
        self._users.pop(digest, None)
        if len(self._users) >= self._count_max:
            del self._users[next(iter(self._users))]
        self._users[digest] = (now_s, user)

    def clear(self) -> None:
        self._users.clear()

    def _forget_old(self, now_s: float) -> None:
        while self._users:
            oldest, (checked_s, _) = next(iter(self._users.items()))
            if now_s - checked_s < self._lifetime_s:
                break
            del self._users[oldest]
