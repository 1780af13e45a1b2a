"""The tokens with which a controller asks segment stores itself: they allow everything, for a short time.

Page: ``docs/formats/internal-commands.md``.
"""

from __future__ import annotations

from typing import Final

from headrace.runtime.clock import Clock
from headrace.security.permission import Permission
from headrace.security.tokens import EVERYTHING, TokenKey, issue

LIFETIME_S: Final = 600
_RENEW_S: Final = 300
"""A token that has less of its life left is not shown any more: clocks of stores differ."""


class InternalTokens:
    """Signs one token for all segments, and another one before it expires."""

    def __init__(self, key: TokenKey, clock: Clock) -> None:
        self._key = key
        self._clock = clock
        self._token = ""
        self._renew_s = 0

    def __call__(self, segment: str) -> str:  # noqa: ARG002 - it is for all of them
        now_s = self._clock.now_ms() // 1000
        if not self._renew_s - _RENEW_S <= now_s < self._renew_s:  # also if the clock was set back
            self._token = issue(self._key, {EVERYTHING: Permission.READ_UPDATE}, now_s, LIFETIME_S)
            self._renew_s = now_s + LIFETIME_S - _RENEW_S
        return self._token
