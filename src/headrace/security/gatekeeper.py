"""Knows callers by their credentials: checked in threads, then remembered for a while.

A check of a password is costly on purpose. So it happens at most twice at a time, calls that wait for one are
bounded, and a caller pays for it once a minute. What was remembered is forgotten within a second after users
or passwords changed.

Who sends many wrong passwords fills the queue of the checks. Credentials that were right before have a queue
of their own, so that users who are at work stay at work.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from headrace.errors import InvalidArgumentError, MailboxFullError, ThrottledError, UnauthenticatedError
from headrace.runtime.blocking import BlockingWork, Threads
from headrace.runtime.entropy import Entropy
from headrace.security.auth_handler import AuthHandler, load_handlers
from headrace.security.config import AuthConfig
from headrace.security.handler_calls import HandlerCalls
from headrace.security.header import HEADER_CHARS_MAX
from headrace.security.permission import Permission
from headrace.security.remembered import Remembered
from headrace.security.users import UsersFile

CHECKS_MAX: Final = 2
"""Credentials that are checked at a time, those that were right before aside."""

WAITING_MAX: Final = 64
"""Credentials that wait for their check, those that were right before aside."""

RETURNING_MAX: Final = 512
"""Credentials that were right before, and wait for their next check."""

REMEMBERED_S: Final = 60.0
LOOK_INTERVAL_S: Final = 1.0
"""Between two looks whether users changed."""

_REMEMBERED_MAX: Final = 10_000
_MISSING: Final = "credentials are missing"
_METHOD: Final = re.compile(r"[A-Za-z][A-Za-z-]{0,31}")
"""Of methods that an error shows: anything else may be a secret that a client has put there."""


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated user, for the time of one call."""

    name: str
    _calls: HandlerCalls = field(repr=False)

    def permission(self, resource: str) -> Permission:
        """Return what the user may do to ``resource``, as of now."""
        return self._calls.permission(self.name, resource)


class _Method:
    """What is known by one handler. On the loop."""

    def __init__(self, handler: AuthHandler, looks: BlockingWork) -> None:
        self.name = handler.method
        self.calls = HandlerCalls(handler)
        self.remembered = Remembered(_REMEMBERED_MAX, REMEMBERED_S)
        self.checks: dict[bytes, asyncio.Future[str | UnauthenticatedError]] = {}
        """By the digest of the header: equal ones share a check."""
        self._looks = looks
        self._look: asyncio.Future[UnauthenticatedError | None] | None = None
        self._looked_s = -math.inf
        self._revision: object = None

    async def look(self) -> None:
        """Forget everybody if users changed; at most one look at a time, and one in ``LOOK_INTERVAL_S``.

        Raises:
            UnauthenticatedError: the handler failed.
        """
        loop = asyncio.get_running_loop()
        if self._look is None:
            if loop.time() - self._looked_s < LOOK_INTERVAL_S:
                return
            self._look = loop.create_future()
            try:
                self._looks.submit(self.calls.revision, (), self._on_looked)
            except BaseException:
                self._look = None
                raise
        failure = await asyncio.shield(self._look)
        if failure is not None:
            raise UnauthenticatedError(*failure.args)

    def _on_looked(self, revision: object, error: BaseException | None) -> None:
        look, self._look = self._look, None
        assert look is not None
        if error is not None:
            self.remembered.clear()
            look.set_result(_refusal_of(error))
            return
        if revision != self._revision:
            self.remembered.clear()
        self._revision = revision
        self._looked_s = asyncio.get_running_loop().time()
        look.set_result(None)

    def on_checked(self, digest: bytes, revision: object, user: str) -> None:
        """Remember a success, if the users are still those it was checked with."""
        if revision == self._revision:
            self.remembered.add(digest, user, asyncio.get_running_loop().time())
        else:
            self._looked_s = -math.inf


class Gatekeeper:
    """Authenticates callers by all handlers. Used on one loop; its creator closes it."""

    def __init__(self, handlers: Sequence[AuthHandler], threads: Threads, entropy: Entropy) -> None:
        """Raises InvalidArgumentError if two handlers are of the same method."""
        self._checks = threads.pool(CHECKS_MAX, "credentials", queue_max=WAITING_MAX)
        self._returns = threads.pool(1, "returning users", queue_max=RETURNING_MAX)
        # Beside the checks, so that calls of remembered users never wait behind those of strangers.
        self._looks = threads.pool(1, "users", queue_max=len(handlers))
        self._key = entropy.token(32)
        self._methods: dict[str, _Method] = {}
        for handler in handlers:
            method = _Method(handler, self._looks)
            if self._methods.setdefault(method.name.lower(), method) is not method:
                raise InvalidArgumentError(f"there are two auth handlers of method {method.name!r}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(method.name for method in self._methods.values())})"

    async def authenticate(self, authorization: str) -> Caller:
        """Return who sent the ``authorization`` header; empty: there is none.

        Raises:
            UnauthenticatedError: the credentials are missing or wrong, or could not be checked.
            ThrottledError: too many others are being checked.
        """
        method, token = self._method_of(authorization)
        await method.look()
        digest = hashlib.blake2b(token.encode("utf-8", "surrogatepass"), key=self._key).digest()
        user = method.remembered.find(digest, asyncio.get_running_loop().time())
        if user is None:
            user = await self._check(method, digest, token)
        return Caller(user, method.calls)

    async def close(self) -> None:
        """End the threads, once the checks that have begun are done."""
        pools = (self._checks, self._returns, self._looks)
        for pool in pools:
            pool.close()
        for pool in pools:
            await pool.wait_closed()

    def _method_of(self, authorization: str) -> tuple[_Method, str]:
        if len(authorization) > HEADER_CHARS_MAX:
            raise UnauthenticatedError(f"the credentials have more than {HEADER_CHARS_MAX} characters")
        name, _, token = authorization.strip().partition(" ")
        token = token.strip()
        if not token:
            raise UnauthenticatedError(_MISSING)
        method = self._methods.get(name.lower())
        if method is None:
            shown = f"method {name}" if _METHOD.fullmatch(name) else "this method"
            known = ", ".join(method.name for method in self._methods.values())
            raise UnauthenticatedError(f"no handler for {shown}: the server takes {known}")
        return method, token

    async def _check(self, method: _Method, digest: bytes, token: str) -> str:
        shared = method.checks.get(digest)
        if shared is None:
            shared = method.checks[digest] = asyncio.get_running_loop().create_future()

            def on_checked(found: tuple[object, str], error: BaseException | None) -> None:
                check = method.checks.pop(digest)
                if error is not None:
                    if isinstance(error, UnauthenticatedError):
                        method.remembered.reject(digest)
                    check.set_result(_refusal_of(error))
                    return
                method.on_checked(digest, *found)
                check.set_result(found[1])

            checks = self._returns if method.remembered.is_familiar(digest) else self._checks
            try:
                checks.submit(method.calls.check, (token,), on_checked)
            except MailboxFullError:
                del method.checks[digest]
                raise ThrottledError("too many credentials are being checked, try again later") from None
            except BaseException:
                del method.checks[digest]
                raise
        outcome = await asyncio.shield(shared)  # a caller that leaves does not end the check of others
        if isinstance(outcome, UnauthenticatedError):
            raise UnauthenticatedError(*outcome.args)
        return outcome


def make_gatekeeper(config: AuthConfig, threads: Threads, entropy: Entropy) -> Gatekeeper:
    """Make the gatekeeper of a server: for the users file, and for handlers of the operator's own.

    Raises:
        InvalidArgumentError: the users file is damaged, or a handler is not installed or fails.
    """
    handlers: list[AuthHandler] = [] if config.users is None else [UsersFile(config.users, entropy)]
    return Gatekeeper([*handlers, *load_handlers(config.handlers)], threads, entropy)


def _refusal_of(error: BaseException) -> UnauthenticatedError:
    if isinstance(error, UnauthenticatedError):
        return error
    return UnauthenticatedError("authentication is not available")  # no thread, for instance
