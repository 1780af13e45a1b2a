"""Credentials that were right a short while ago, and those that were right some time. Pure: the time is an
argument.

A header is known by a keyed digest of it, so that this memory holds no secret.
"""

from __future__ import annotations


class Remembered:
    """Users by the digest of their header: at most ``count_max``, each for ``lifetime_s`` since its check.

    Digests are kept beyond that, as many: they open nothing, but tell returning users from strangers.
    """

    __slots__ = ("_count_max", "_familiar", "_lifetime_s", "_users")

    def __init__(self, count_max: int, lifetime_s: float) -> None:
        assert count_max >= 1
        self._count_max = count_max
        self._lifetime_s = lifetime_s
        self._users: dict[bytes, tuple[float, str]] = {}
        """In the order of their checks, hence of their ends."""
        self._familiar: dict[bytes, None] = {}
        """In the order of their last checks."""

    def __len__(self) -> int:
        return len(self._users)

    def find(self, digest: bytes, now_s: float) -> str | None:
        """Return the user, or None if the credentials must be checked."""
        self._forget_old(now_s)
        found = self._users.get(digest)
        return None if found is None else found[1]

    def is_familiar(self, digest: bytes) -> bool:
        """Tell whether the last check of the credentials, however long ago, found them right."""
        return digest in self._familiar

    def add(self, digest: bytes, user: str, now_s: float) -> None:
        """Remember credentials that have just been checked; forget the oldest if there are too many."""
        for kept in (self._users, self._familiar):
            kept.pop(digest, None)
            if len(kept) >= self._count_max:
                del kept[next(iter(kept))]
        self._users[digest] = (now_s, user)
        self._familiar[digest] = None

    def reject(self, digest: bytes) -> None:
        """Forget credentials that have just been found wrong."""
        self._users.pop(digest, None)
        self._familiar.pop(digest, None)

    def clear(self) -> None:
        """Have all credentials checked again."""
        self._users.clear()

    def _forget_old(self, now_s: float) -> None:
        while self._users:
            oldest, (checked_s, _) = next(iter(self._users.items()))
            if now_s - checked_s < self._lifetime_s:
                break
            del self._users[oldest]
