"""A gatekeeper for tests: users by name, each with a password and what it may do to named resources."""

from base64 import b64decode, b64encode
from dataclasses import dataclass, field

from headrace.errors import UnauthenticatedError
from headrace.security.permission import Permission

EVERYTHING = "*"


def basic(name, password="secret"):
    """Return the header of a user."""
    return "Basic " + b64encode(f"{name}:{password}".encode()).decode()


@dataclass
class KnownUser:
    name: str
    grants: dict = field(default_factory=dict)

    def permission(self, resource):
        return self.grants.get(resource, self.grants.get(EVERYTHING, Permission.NONE))


class KnownUsers:
    """All have the same password. Takes Basic credentials only."""

    def __init__(self, **grants):
        self.users = {name: KnownUser(name, given) for name, given in grants.items()}

    async def authenticate(self, authorization):
        method, _, token = authorization.partition(" ")
        if method != "Basic":
            raise UnauthenticatedError("the call has no credentials")
        try:
            name, _, password = b64decode(token, validate=True).decode().partition(":")
        except ValueError:
            raise UnauthenticatedError("the credentials cannot be read") from None
        if name not in self.users or password != "secret":
            raise UnauthenticatedError("wrong user or password")
        return self.users[name]


NOT_AUTHENTICATED = {
    "no credentials": (),
    "empty": ("",),
    "wrong password": (basic("enough", "wrong"),),
    "unknown user": (basic("nobody"),),
    "garbage": ("Basic %%%",),
    "no method": (b64encode(b"enough:secret").decode(),),
    "another method": ("Bearer abc",),
    "not ASCII": ("Basic \u00fc",),
    "control characters": (basic("enough") + "\n",),
    "huge": (basic("enough", "x" * 9000),),
    "twice": (basic("enough"), basic("enough")),
}
"""Values of the header ``authorization`` that are refused, also for the user ``enough``."""


def users_for(need):
    """Return users with exactly what ``need`` asks, less, and the same in another place."""
    resources = need.resources
    lower = Permission(need.permission - 1)
    also = {other.resources[0]: other.permission for other in need.also}
    return KnownUsers(
        enough=dict.fromkeys(resources[-1:], need.permission) | also,
        less=dict.fromkeys(resources, lower) | also,
        elsewhere={
            "prn::/scope:elsewhere": Permission.READ_UPDATE,
            "prn::/scope:elsewhere/stream:t": Permission.READ_UPDATE,
            "prn::/scope:elsewhere/key-value-table:k": Permission.READ_UPDATE,
            "prn::/scope:elsewhere/reader-group:g": Permission.READ_UPDATE,
        },
    )
