"""A handler for tests: users by token, each check counted."""

from headrace.errors import UnauthenticatedError
from headrace.security.permission import Permission


class Handler:
    def __init__(self, method="Basic", **users):
        self.method = method
        self.users = users
        """Token to name."""
        self.checks = []
        self.looks = 0
        self.version = 1
        self.failure = None
        self.on_check = lambda token: None

    def authenticate(self, token):
        self.checks.append(token)
        self.on_check(token)
        self._fail("authenticate")
        if token not in self.users:
            raise UnauthenticatedError("wrong user name or password")
        return self.users[token]

    def permission(self, user, resource):
        self._fail("permission")
        return Permission.READ if (user, resource) == ("ada", "prn::/") else Permission.NONE

    def revision(self):
        self.looks += 1
        self._fail("revision")
        return self.version

    def _fail(self, call):
        if self.failure and self.failure[0] == call:
            raise self.failure[1]


def make_handler():
    """An entry point."""
    return Handler("Ticket", t="ada")


def make_another():
    return Handler("Another")


def make_nothing():
    return object()


def fail():
    raise OSError("no such server")
