"""Who may do what: the hook through which every request about a segment passes."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum


class Permission(IntEnum):
    """What a delegation token has to allow, at least."""

    READ = 1
    READ_UPDATE = 2


Authorise = Callable[[str, str, Permission], None]
"""Told (token, segment, permission). Raises AccessDeniedError, or TokenExpiredError, to refuse.

A writer shows its token once, when it is set up, and is not asked again. Nothing here tells when a token
expires, so nothing ends then; where tokens expire, other servers of this protocol close the connection.
"""


def allow_all(token: str, segment: str, permission: Permission) -> None:
    """Let everybody do everything: the answer of a server without authorisation."""
