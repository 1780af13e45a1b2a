"""A proxy between a client of HTTP and its server that breaks requests on purpose, as networks and stores do.

One fault hits one request. What a fault does to the server's state is in its text: whether the request was
carried out is what the client cannot know.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Final, Self

_HEAD_BYTES_MAX: Final = 64 * 1024
_BODY_BYTES_MAX: Final = 256 * 1024 * 1024


class HttpFault(Enum):
    """What happens to one request."""

    BUSY = "answered 503; the server did not see it"
    CONFLICT = "answered 409; the server did not see it"
    CUT_BEFORE_BODY = "the connection ends after the head; the server did not see it"
    CUT_IN_BODY = "the server got half of the body, then both connections end"
    CUT_AFTER_BODY = "the connection ends after the body; the server did not see it"
    LOSE_ANSWER = "the server carried it out; the connection ends without an answer"
    LOSE_ANSWER_BUSY = "the server carried it out; answered 503"
    LOSE_ANSWER_CONFLICT = "the server carried it out; answered 409"
    REPEATED = "the server got it twice; the second answer is passed on"
    CUT_IN_ANSWER = "the server carried it out; the connection ends in the middle of the answer"
    STALL = "the server did not see it, the client waits for ever"


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request: its method, its path with the query, and the bytes of its body."""

    method: str
    target: str
    body_bytes: int


Injector = Callable[[HttpRequest], HttpFault | None]

_ANSWERS: Final = {
    HttpFault.BUSY: (503, "SlowDown"),
    HttpFault.LOSE_ANSWER_BUSY: (503, "SlowDown"),
    HttpFault.CONFLICT: (409, "ConditionalRequestConflict"),
    HttpFault.LOSE_ANSWER_CONFLICT: (409, "ConditionalRequestConflict"),
}
_REACHES_SERVER: Final = frozenset(
    {
        None,
        HttpFault.REPEATED,
        HttpFault.LOSE_ANSWER,
        HttpFault.LOSE_ANSWER_BUSY,
        HttpFault.LOSE_ANSWER_CONFLICT,
        HttpFault.CUT_IN_ANSWER,
    }
)


class FaultyHttpProxy:
    """Listens on loopback and passes requests on to ``host:port``; ``inject`` decides about each."""

    def __init__(self, host: str, port: int, inject: Injector = lambda _: None) -> None:
        self.inject = inject
        self.requests: list[HttpRequest] = []
        self._upstream = (host, port)
        self._server: asyncio.Server | None = None
        self._ended = asyncio.Event()

    @property
    def endpoint(self) -> str:
        """The URL to give to a client."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=_HEAD_BYTES_MAX)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._ended.set()  # connections that stall
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while await self._pass_request(reader, writer):
                pass
        writer.close()

    async def _pass_request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Handle one request; return whether the connection goes on."""
        head = await reader.readuntil(b"\r\n\r\n")
        method, target = head.split(b" ", 2)[:2]
        request = HttpRequest(method.decode(), target.decode(), _body_bytes(head))
        self.requests.append(request)
        fault = self.inject(request)
        if fault is HttpFault.CUT_BEFORE_BODY:
            return False
        body = await reader.readexactly(request.body_bytes)
        if fault is HttpFault.STALL:
            await self._ended.wait()
            return False
        answer = b""
        if fault is HttpFault.CUT_IN_BODY:
            await self._ask(head, body[: len(body) // 2])
        elif fault in _REACHES_SERVER:
            answer = await self._ask(head, body)
        if fault is HttpFault.REPEATED:
            answer = await self._ask(head, body)
        if fault in _ANSWERS:
            answer = _error_answer(*_ANSWERS[fault])
        elif fault is HttpFault.CUT_IN_ANSWER:
            answer = answer[: max(len(answer) // 2, 1)]
        elif fault not in {None, HttpFault.REPEATED}:
            return False
        writer.write(answer)
        await writer.drain()
        return fault is not HttpFault.CUT_IN_ANSWER

    async def _ask(self, head: bytes, body: bytes) -> bytes:
        """Send one request on a connection of its own; return the answer until the server ends it."""
        reader, writer = await asyncio.open_connection(*self._upstream)
        try:
            writer.write(head[:-2] + b"Connection: close\r\n\r\n" + body)
            await writer.drain()
            if len(body) < _body_bytes(head):
                return b""
            return await reader.read(-1)
        finally:
            writer.close()


def _body_bytes(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            length = int(line.partition(b":")[2])
            assert 0 <= length <= _BODY_BYTES_MAX
            return length
    return 0


def _error_answer(status: int, code: str) -> bytes:
    body = f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>a fault on purpose</Message></Error>'
    head = f"HTTP/1.1 {status} Fault\r\nContent-Type: application/xml\r\nContent-Length: {len(body)}\r\n\r\n"
    return (head + body).encode()
