"""The internal identity: what processes of one cluster show each other, and how they recognise it.

It is a token that allows everything, for a short time, signed with the key of the cluster. Segment stores get
it as any other token, controllers in the header of a call. Page: ``docs/formats/internal-calls.md``.
"""

from __future__ import annotations

from typing import Final

from headrace.runtime.clock import Clock
from headrace.security.permission import Permission
from headrace.security.token_checker import TokenChecker
from headrace.security.tokens import EVERYTHING, TokenKey, issue

LIFETIME_S: Final = 600
_RENEW_S: Final = 300
"""A token that has less of its life left is not shown any more: clocks of processes differ."""
_METHOD: Final = "Bearer "


class InternalTokens:
    """Signs one token for everything, and another one before it expires."""

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

    def header(self) -> str:
        """Return what the header ``authorization`` of a call to a controller says."""
        return _METHOD + self(EVERYTHING)


def shows_token(header: str) -> bool:
    """Whether a caller with this header says that it is a process of the cluster, and no user."""
    return header.startswith(_METHOD)


class InternalCallers:
    """Recognises processes of the same cluster by that header."""

    def __init__(self, key: TokenKey, clock: Clock, leeway_s: float) -> None:
        """``leeway_s``: see :class:`TokenChecker`."""
        self._checker = TokenChecker(key, clock, leeway_s)

    def check(self, header: str) -> None:
        """Raises PermissionDeniedError: its token is not for everything; TokenExpiredError."""
        self._checker.authorise(header.removeprefix(_METHOD), EVERYTHING, Permission.READ_UPDATE)
