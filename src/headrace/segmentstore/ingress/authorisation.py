"""The authorisation hook, called for every request about a segment."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum


class Permission(IntEnum):
    """What a delegation token has to allow, at least."""

    READ = 1
    READ_UPDATE = 2


Authorise = Callable[[str, str, Permission], None]
"""Called with (token, segment, permission). Raises AccessDeniedError, or TokenExpiredError, to refuse.

The token of a writer is checked once, when it is set up. The expiry of a token is not known here, so nothing
ends then; other servers of this protocol close the connection.
"""


def allow_all(token: str, segment: str, permission: Permission) -> None:
    """Allow everything: the hook of a server without authorisation."""
