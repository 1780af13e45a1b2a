"""Checks delegation tokens, each of them with one look-up after the first time.

Every read carries the token of its reader, so what a token allows is remembered. No task, no timer.
"""

from __future__ import annotations

from typing import Final

from headrace.errors import PermissionDeniedError, TokenExpiredError
from headrace.limits import MIB
from headrace.runtime.clock import Clock
from headrace.security.permission import Permission
from headrace.security.tokens import Allowance, TokenKey, read

KNOWN_MAX: Final = 4096
KNOWN_CHARS_MAX: Final = 4 * MIB
"""Of the texts of remembered tokens together; most have 300."""


class TokenChecker:
    """Decides what the holders of tokens may do to segments. Used on one loop."""

    def __init__(self, key: TokenKey, clock: Clock, leeway_s: float) -> None:
        """``leeway_s``: for so long tokens are still accepted after their expiry, since clocks differ."""
        self._key = key
        self._clock = clock
        self._leeway_ms = round(leeway_s * 1000)
        self._known: dict[str, tuple[Allowance, int | None]] = {}
        """What a token allows, and when it ends in milliseconds since the epoch, the leeway included."""
        self._known_chars = 0

    def authorise(self, token: str, segment: str, permission: Permission) -> int | None:
        """Return for how many more milliseconds the token allows this; None: it never expires.

        Raises:
            PermissionDeniedError: it is missing or invalid, or does not allow this.
            TokenExpiredError: it did once.
        """
        known = self._known.get(token)
        if known is None:
            known = self._learn(token)
        allowance, ends_ms = known
        left_ms = None
        if ends_ms is not None:
            left_ms = ends_ms - self._clock.now_ms()
            if left_ms <= 0:
                raise TokenExpiredError(
                    "the delegation token has expired: ask the controller for a fresh one"
                )
        if not allowance.allows(segment, permission):
            raise PermissionDeniedError(
                f"the delegation token does not allow {permission.name} on {segment!r}"
            )
        return left_ms

    def _learn(self, token: str) -> tuple[Allowance, int | None]:
        """Raises PermissionDeniedError."""
        allowance = read(self._key, token)
        ends_ms = None
        if allowance.expires_s is not None:
            ends_ms = int(allowance.expires_s * 1000) + self._leeway_ms
        while len(self._known) >= KNOWN_MAX or self._known_chars + len(token) > KNOWN_CHARS_MAX:
            oldest = next(iter(self._known))
            del self._known[oldest]
            self._known_chars -= len(oldest)
        self._known_chars += len(token)
        known = self._known[token] = (allowance, ends_ms)
        return known
