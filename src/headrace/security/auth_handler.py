"""The contract of what knows users: the users file, or a handler of an operator's own.

A handler is found by the method of an ``authorization`` header: ``Basic dXNlcjpwYXNz`` goes to the one whose
``method`` is ``Basic``. Handlers of one's own are entry points of the group ``headrace.auth_handlers``: the
name is the method, the object is called without arguments and returns a handler.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Final, Protocol

from headrace.errors import InvalidArgumentError
from headrace.security.permission import Permission

ENTRY_POINTS: Final = "headrace.auth_handlers"

_CALLS: Final = ("authenticate", "permission", "revision")


class AuthHandler(Protocol):
    """Knows users by one method of authentication."""

    @property
    def method(self) -> str:
        """The first word of the headers that this handler takes, for instance ``Basic``."""

    def authenticate(self, token: str) -> str:
        """Return the name of the user whose credentials ``token`` (the rest of the header) holds.

        Called in a thread: it may compute or ask another server. An answer is remembered for a while, until
        :meth:`revision` changes.

        Raises:
            UnauthenticatedError: they are wrong. The text never holds any of them.
        """

    def permission(self, user: str, resource: str) -> Permission:
        """Return what an authenticated user may do to ``resource``. Called on the loop: it must not wait."""

    def revision(self) -> object:
        """Return something that differs once users or passwords have changed. Called in a thread; may look at
        a file.
        """


def load_handlers(methods: str) -> list[AuthHandler]:
    """Make the handlers that are installed for ``methods``, which commas separate.

    Raises:
        InvalidArgumentError: one is not installed, cannot be made, or is no handler of its method.
    """
    wanted = [method.strip() for method in methods.split(",") if method.strip()]
    installed = {point.name.lower(): point for point in entry_points(group=ENTRY_POINTS)} if wanted else {}
    handlers = []
    for method in wanted:
        point = installed.get(method.lower())
        if point is None:
            names = ", ".join(sorted(point.name for point in installed.values())) or "none"
            raise InvalidArgumentError(
                f"there is no auth handler of method {method!r}; installed as entry points of "
                f"{ENTRY_POINTS}: {names}"
            )
        try:
            handler = point.load()()
        except Exception as error:
            raise InvalidArgumentError(
                f"the auth handler of method {method!r} ({point.value}) cannot be made: "
                f"{type(error).__name__}: {error}"
            ) from error
        _check(method, point.value, handler)
        handlers.append(handler)
    return handlers


def _check(method: str, where: str, handler: object) -> None:
    """Raises InvalidArgumentError if ``handler`` is none of ``method``."""
    absent = [call for call in _CALLS if not callable(getattr(handler, call, None))]
    if absent:
        raise InvalidArgumentError(f"the auth handler of method {method!r} ({where}) has no {absent[0]}()")
    named = getattr(handler, "method", None)
    if not isinstance(named, str) or named.lower() != method.lower():
        raise InvalidArgumentError(
            f"the auth handler of method {method!r} ({where}) says that its method is {named!r}"
        )
