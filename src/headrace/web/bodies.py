"""Bodies of requests: JSON objects of bounded size, and what remains unread when an answer is ready.

A client that still sends when its connection is closed gets a reset instead of the answer. So the rest of a
body is read and dropped before an answer leaves, as far as a bound of bytes and time; not if the client
waits for permission to send it (``Expect: 100-continue``).
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final, TypeVar

import msgspec
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.errors import InvalidArgumentError
from headrace.limits import MIB
from headrace.web.body_faults import explain
from headrace.web.models import Model
from headrace.web.refusals import BodyTooLargeError

BODY_BYTES_MAX: Final = 1 * MIB
DROPPED_BYTES_MAX: Final = 64 * MIB
DROPPING_S: Final = 5.0

M = TypeVar("M", bound=Model)


async def body_of(request: Request, model: type[M]) -> M:
    """Return the JSON object that was sent, as ``model``.

    Raises:
        BodyTooLargeError: it has more than ``BODY_BYTES_MAX`` bytes.
        InvalidFieldError: a member is missing, of the wrong type or out of range.
        InvalidArgumentError: it is no JSON object, or holds text that is not Unicode.
        ClientDisconnect: the client left before it had sent all of it.
    """
    received = bytearray()
    async for piece in request.stream():
        received += piece
        if len(received) > BODY_BYTES_MAX:
            raise BodyTooLargeError(f"the body of a request has at most {BODY_BYTES_MAX} bytes")
    try:
        return msgspec.json.decode(received, type=model)
    except msgspec.ValidationError as error:
        raise explain(str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise InvalidArgumentError("the body of the request is not JSON") from None


class DropUnreadBodies:
    """An application that reads what is left of a body before its answer begins."""

    def __init__(self, application: ASGIApp) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        body = _Body(receive, expected=any(name == b"expect" for name, _ in scope["headers"]))

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                await body.drop()
            await send(message)

        await self._application(scope, body.receive, answer)


class _Body:
    """What arrives of one request."""

    def __init__(self, receive: Receive, *, expected: bool) -> None:
        self._receive = receive
        self._unasked = expected
        """The client waits to be asked for the body."""
        self._complete = False

    async def receive(self) -> Message:
        self._unasked = False
        message = await self._receive()
        self._complete = message["type"] != "http.request" or not message.get("more_body", False)
        return message

    async def drop(self) -> None:
        if self._unasked:
            return
        dropped = 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DROPPING_S):
                while not self._complete and dropped <= DROPPED_BYTES_MAX:
                    dropped += len((await self.receive()).get("body", b""))
