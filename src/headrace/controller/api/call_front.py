"""What stands between a control call's bytes and its handler: parsing, authorization, refusals. No network.

A handler that refuses a call raises: the error becomes a status of the reply if there is one for it
(:mod:`headrace.rpc.refusals`), else a status code. Any other exception is a bug of ours, is logged and
answered as INTERNAL.
"""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import grpc
from google.protobuf.message import DecodeError

from headrace.controller.api.auth import Rule
from headrace.controller.api.issued_tokens import IssuedTokens
from headrace.controller.api.listings import LISTINGS, Listing
from headrace.errors import HeadraceError, InvalidArgumentError, ThrottledError
from headrace.rpc.refusals import refusing_reply, tell_error
from headrace.rpc.status import status_of
from headrace.runtime.logs import logger
from headrace.runtime.supervisor import Supervisor
from headrace.security.access import INTERNAL, Caller, Gatekeeper, admit
from headrace.security.header import authorization_of
from headrace.security.internal_identity import InternalCallers, shows_token

Handler = Callable[[Any], Coroutine[Any, Any, Any]]
Metadata = Iterable[tuple[str, str | bytes]]

CALL_TIMEOUT_S: Final = 300.0

CALLS_MAX: Final = 1024
"""Calls at a time; more are refused, and their clients try again. Calls whose callers left count too."""

_log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A call that is answered with a status code instead of a reply."""

    code: grpc.StatusCode
    details: str
    trailer: tuple[tuple[str, str | bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply, and what its trailing metadata say of the error that it stands for."""

    reply: Any
    trailer: tuple[tuple[str, str | bytes], ...] = ()


class CallFront:
    """Runs the handlers of one controller, on its loop."""

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        gatekeeper: Gatekeeper | None = None,
        rules: Mapping[str, Rule] | None = None,
        tokens: IssuedTokens | None = None,
        internal: InternalCallers | None = None,
    ) -> None:
        """``handlers`` maps calls in snake case to coroutine functions of one request, ``rules`` to what
        their callers need: a call without a rule is denied.

        Without a ``gatekeeper`` every call is allowed, without ``tokens`` no reply has a delegation token,
        and with a ``gatekeeper`` but without ``internal`` no process of the cluster is recognised.
        """
        self._handlers = handlers
        self._gatekeeper = gatekeeper
        self._rules = rules or {}
        self._tokens = tokens
        self._internal = internal
        self._calls = Supervisor("control calls")

    def serves(self, call: str) -> bool:
        return call in self._handlers

    def calls_running(self) -> int:
        """Return how many calls are active, those without their callers included."""
        return self._calls.count

    async def answer(self, name: str, message: Any, data: bytes, metadata: Metadata) -> Answer | Refusal:
        """Answer the call ``name`` of the protocol, whose requests are of the class ``message``.

        A call whose caller leaves goes on: what it had begun is finished. Raises nothing.
        """
        try:
            request = _parse(message, data)  # not by gRPC, which calls garbage a bug of ours
            call = snake_case(name)
            caller = await self._admit(name, call, request, metadata)
            listing = LISTINGS.get(call)
            if caller is None or listing is None:
                reply = await self._handle(call, request)
                if caller is not None and self._tokens is not None:
                    reply = self._tokens.add(call, request, reply, caller)
                return Answer(reply)
            async with asyncio.timeout(CALL_TIMEOUT_S):
                return Answer(await self._list(call, request, listing, caller))
        except HeadraceError as error:
            trailer = (tell_error(error),)
            reply = refusing_reply(name, error)
            if reply is not None:
                return Answer(reply, trailer)
            return Refusal(status_of(error), str(error), trailer)
        except TimeoutError:
            return _not_completed(name, f"it takes longer than {CALL_TIMEOUT_S:.0f} s")
        except asyncio.CancelledError:
            return _not_completed(name, "the controller stops")
        except Exception as error:  # noqa: BLE001 - a bug of ours must not look like an answer
            _log.error("call failed", call=name, exc_info=error)
            return Refusal(grpc.StatusCode.INTERNAL, f"{name} failed: {type(error).__name__}")

    async def _admit(self, name: str, call: str, request: Any, metadata: Metadata) -> Caller | None:
        """Raises UnauthenticatedError, PermissionDeniedError."""
        if self._gatekeeper is None:
            return None
        rule = self._rules.get(call)
        need = None if rule is None else rule(request)
        if need is INTERNAL and self._internal is not None:
            header = authorization_of(metadata)
            if shows_token(header):
                self._internal.check(header)
                return None
        return await admit(self._gatekeeper, metadata, name, need)

    async def _list(self, call: str, request: Any, listing: Listing, caller: Caller) -> Any:
        """Return the next page of which the caller may read something, or the last one."""
        while True:
            reply = await self._handle(call, request)
            if not listing.keep_readable(reply, caller):
                return reply
            request.continuationToken.CopyFrom(reply.continuationToken)

    async def _handle(self, call: str, request: Any) -> Any:
        """Return the reply. Raises what the handler raises; ThrottledError if too many are active."""
        if self._calls.count >= CALLS_MAX:
            raise ThrottledError(f"{CALLS_MAX} control calls are active, some of them without their callers")
        task = self._calls.spawn(call, self._outcome(call, request))
        try:
            outcome = await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(functools.partial(_report, call))
            raise
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def _outcome(self, call: str, request: Any) -> Any:
        """Return the reply, or the exception of the handler: it is reported with the answer."""
        try:
            async with asyncio.timeout(CALL_TIMEOUT_S):
                return await self._handlers[call](request)
        except Exception as error:  # noqa: BLE001 - all of them have an answer
            return error

    async def stop(self) -> None:
        """Abandon active calls and take no more. The next start finishes what a call had begun."""
        await self._calls.stop()


def _report(call: str, task: asyncio.Task[Any]) -> None:
    """Log a bug that no answer reports: the caller has left."""
    outcome = None if task.cancelled() else task.result()
    if isinstance(outcome, Exception) and not isinstance(outcome, HeadraceError | TimeoutError):
        _log.error("call failed", call=call, exc_info=outcome)


def _not_completed(name: str, why: str) -> Refusal:
    return Refusal(grpc.StatusCode.UNAVAILABLE, f"{name} was not completed: {why}")


def _parse(message: Any, data: bytes) -> Any:
    """Raises InvalidArgumentError if ``data`` are no ``message``."""
    try:
        return message.FromString(data)
    except DecodeError:
        raise InvalidArgumentError(f"the request is no {message.DESCRIPTOR.name}") from None


@functools.cache
def snake_case(name: str) -> str:
    """``getURI`` -> ``get_uri``, ``listKeyValueTablesInScope`` -> ``list_key_value_tables_in_scope``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def handlers_of(*groups: object) -> dict[str, Handler]:
    """Collect the public coroutine functions of call groups by name."""
    found: dict[str, Handler] = {}
    for group in groups:
        for name, member in vars(type(group)).items():
            if not name.startswith("_") and asyncio.iscoroutinefunction(member):
                assert name not in found
                found[name] = getattr(group, name)
    return found
