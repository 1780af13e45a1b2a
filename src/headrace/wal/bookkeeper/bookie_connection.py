"""One connection to a bookie: sends requests, hands answers over, tells once that it is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol, cast

from headrace.errors import ProtocolError, UnreachableError
from headrace.model.endpoint import Endpoint
from headrace.wal.bookkeeper.wire_format import Answer, AnswerCutter

CONNECT_TIMEOUT_S: Final = 3.0


class Connection(Protocol):
    """One connection to a bookie. Callbacks come on the loop, never from within a call."""

    def send(self, head: bytes, payload: bytes | memoryview = b"") -> None:
        """Send a request; without a connection it is not answered. ``payload`` may be used until then."""

    def abort(self) -> None:
        """Give the connection up: nothing is sent any more, nor any callback made. Idempotent."""


class Connect(Protocol):
    """Connects to a bookie: :func:`connect_bookie`, or what a test has instead."""

    async def __call__(
        self, endpoint: Endpoint, on_answer: Callable[[Answer], None], on_lost: Callable[[], None]
    ) -> Connection:
        """Raises UnreachableError: it does not take the connection."""


class BookieConnection(asyncio.Protocol):
    """A ``Connection`` made by :func:`connect_bookie`."""

    def __init__(self, on_answer: Callable[[Answer], None], on_lost: Callable[[], None]) -> None:
        self._on_answer = on_answer
        self._on_lost: Callable[[], None] | None = on_lost
        self._cutter = AnswerCutter()
        self._transport: asyncio.Transport | None = None

    def send(self, head: bytes, payload: bytes | memoryview = b"") -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.writelines((head, payload) if payload else (head,))

    def abort(self) -> None:
        self._on_lost = None
        if self._transport is not None:
            self._transport.abort()

    # ---- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        try:
            answers = self._cutter.feed(data)
        except ProtocolError:
            assert self._transport is not None
            self._transport.abort()
            return
        for answer in answers:
            if self._on_lost is None:
                return
            self._on_answer(answer)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - why does not matter
        self._transport = None
        on_lost, self._on_lost = self._on_lost, None
        if on_lost is not None:
            on_lost()


async def connect_bookie(
    endpoint: Endpoint, on_answer: Callable[[Answer], None], on_lost: Callable[[], None]
) -> BookieConnection:
    """Connect to a bookie.

    Raises:
        UnreachableError: it does not take the connection.
    """
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            _, connection = await loop.create_connection(
                lambda: BookieConnection(on_answer, on_lost), endpoint.host, endpoint.port
            )
    except (OSError, TimeoutError) as error:
        raise UnreachableError(f"bookie {endpoint} does not take a connection: {error}") from None
    return connection
