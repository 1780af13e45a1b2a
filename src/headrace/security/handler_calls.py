"""Calls of a handler, perhaps one of an operator's own: whatever it raises, nobody is let in and no secret is
logged.
"""

from __future__ import annotations

import threading
import traceback
from typing import Final, NoReturn

from headrace.errors import InvalidArgumentError, UnauthenticatedError
from headrace.runtime.logs import logger
from headrace.security.auth_handler import AuthHandler
from headrace.security.permission import Permission
from headrace.security.users_file import check_name

_TEXT_CHARS_MAX: Final = 200
_KINDS_MAX: Final = 100
"""Of failures that are logged, once each."""

_log = logger(__name__)


class HandlerCalls:
    """Refuses where the handler fails. Safe in threads."""

    def __init__(self, handler: AuthHandler) -> None:
        self._handler = handler
        self._kinds: set[tuple[str, str]] = set()
        self._lock = threading.Lock()
        """Of the kinds."""

    def check(self, token: str) -> tuple[object, str]:
        """Return the revision of before the check, and the user. Called in a thread.

        Raises:
            UnauthenticatedError: the credentials are wrong, or the handler failed.
        """
        revision = self.revision()
        try:
            user = self._handler.authenticate(token)
            check_name(user)
        except UnauthenticatedError as error:
            raise UnauthenticatedError(str(error)[:_TEXT_CHARS_MAX] or "wrong credentials") from None
        except InvalidArgumentError:  # it is no name that a log or an error could show
            self._fail("authenticate", ValueError())
        except Exception as error:  # noqa: BLE001 - the handler may be anybody's
            self._fail("authenticate", error)
        return revision, user

    def revision(self) -> object:
        """Called in a thread. Raises UnauthenticatedError if the handler failed."""
        try:
            return self._handler.revision()
        except Exception as error:  # noqa: BLE001 - as above
            self._fail("revision", error)

    def permission(self, user: str, resource: str) -> Permission:
        """Return NONE if the handler failed."""
        try:
            return Permission(self._handler.permission(user, resource))
        except Exception as error:  # noqa: BLE001 - as above
            self._log_once("permission", error)
            return Permission.NONE

    def _fail(self, call: str, error: Exception) -> NoReturn:
        self._log_once(call, error)
        raise UnauthenticatedError("authentication is not available") from None

    def _log_once(self, call: str, error: Exception) -> None:
        """Log where an error was raised. Its text is left out: it may hold credentials."""
        kind = (call, type(error).__name__)
        with self._lock:
            if kind in self._kinds or len(self._kinds) >= _KINDS_MAX:
                return
            self._kinds.add(kind)
        frames = traceback.extract_tb(error.__traceback__, -1)
        _log.error(
            "an auth handler failed and its callers are refused; such failures are logged once",
            method=self._handler.method,
            call=call,
            error=type(error).__name__,
            at=f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "unknown",
        )
