"""Who has signed in with a browser. Pure: the time is an argument.

A browser keeps one random secret, in a cookie. The credentials that were given with it are looked at again
with every request, so that a session ends with the password and with the user. They are kept enciphered by
that secret, and the secret is kept nowhere: this memory alone opens nothing.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

SECRET_BYTES: Final = 32
SESSIONS_MAX: Final = 1000
"""The oldest is forgotten for a new one."""

LIFETIME_S: Final = 12 * 3600.0


@dataclass(frozen=True, slots=True)
class _Session:
    sealed: bytes
    ends_s: float


class Sessions:
    """Sessions by the digest of their secret."""

    def __init__(self) -> None:
        self._sessions: dict[bytes, _Session] = {}

    def open(self, secret: str, authorization: str, now_s: float) -> None:
        """Begin a session for whoever has ``secret``, of which no other one knows."""
        while len(self._sessions) >= SESSIONS_MAX:
            del self._sessions[next(iter(self._sessions))]
        sealed = _cipher(secret, authorization.encode())
        self._sessions[_digest(secret)] = _Session(sealed, now_s + LIFETIME_S)

    def find(self, secret: str, now_s: float) -> str | None:
        """Return the credentials of a session; None: there is no such one (any more)."""
        key = _digest(secret)
        found = self._sessions.get(key)
        if found is None:
            return None
        if found.ends_s <= now_s:
            del self._sessions[key]
            return None
        return _cipher(secret, found.sealed).decode()

    def close(self, secret: str) -> None:
        """End a session. Idempotent."""
        self._sessions.pop(_digest(secret), None)


def form_token(secret: str) -> str:
    """Return what forms of a session's pages carry: no page of another origin can know it."""
    return hashlib.blake2b(secret.encode(), digest_size=16, person=b"form").hexdigest()


def _digest(secret: str) -> bytes:
    return hashlib.blake2b(secret.encode(), person=b"session").digest()


def _cipher(secret: str, text: bytes) -> bytes:
    """Encipher, or decipher, what is enciphered once by this secret: a pad of its own for each session."""
    pad = hashlib.shake_256(b"credentials" + secret.encode()).digest(len(text))
    return bytes(each ^ key for each, key in zip(text, pad, strict=True))
