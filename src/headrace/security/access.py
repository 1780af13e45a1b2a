"""What callers need, and whether they have it: the same for gRPC and REST."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from headrace.errors import PermissionDeniedError
from headrace.security.header import authorization_of
from headrace.security.permission import Permission

_SHOWN_CHARS: Final = 200


class Caller(Protocol):
    """An authenticated user, for the time of one call."""

    @property
    def name(self) -> str: ...

    def permission(self, resource: str) -> Permission:
        """Return what the user may do to ``resource``."""


class Gatekeeper(Protocol):
    """Knows users by their credentials. Used on the loop."""

    async def authenticate(self, authorization: str) -> Caller:
        """Return the caller with this ``authorization`` header; empty: there is none.

        Raises:
            UnauthenticatedError: the credentials are missing or wrong.
        """


@dataclass(frozen=True, slots=True)
class Need:
    """What a caller needs: the permission on any one of the resources, and all that is needed ``also``.
    Without resources: nothing.
    """

    permission: Permission
    resources: tuple[str, ...]
    also: tuple[Need, ...] = ()

    def check(self, caller: Caller) -> None:
        """Raises PermissionDeniedError."""
        if not self.resources:
            raise PermissionDeniedError(f"user {caller.name!r} is no process of the cluster")
        if not any(caller.permission(resource) >= self.permission for resource in self.resources):
            wanted = " or ".join(f"{resource!r:.{_SHOWN_CHARS}}" for resource in self.resources)
            raise PermissionDeniedError(f"user {caller.name!r} lacks {self.permission.name} on {wanted}")
        for other in self.also:
            other.check(caller)


NOTHING: Final = Need(Permission.NONE, ())
"""Everybody may make the call, also without credentials."""

INTERNAL: Final = Need(Permission.READ_UPDATE, ())
"""No user may make the call, but processes of the same cluster."""


async def admit(
    gatekeeper: Gatekeeper, headers: Iterable[tuple[str, str | bytes]], what: str, need: Need | None
) -> Caller | None:
    """Return the caller of ``what``, which has what it needs; None if it needs nothing.

    Without a ``need`` there is no rule for it, and no caller may make it.

    Raises:
        UnauthenticatedError: the credentials are missing or wrong.
        PermissionDeniedError: they are good, but not for this.
    """
    if need is NOTHING:
        return None
    caller = await gatekeeper.authenticate(authorization_of(headers))
    if need is None:
        raise PermissionDeniedError(f"no permission is enough for {what}: there is no rule for it")
    need.check(caller)
    return caller


def may_read(caller: Caller | None, resource: str) -> bool:
    """Tell whether ``resource`` is shown in listings; to everybody where authorization is off."""
    return caller is None or caller.permission(resource) >= Permission.READ
