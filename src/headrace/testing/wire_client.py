"""The simplest client of the wire protocol: no retries, no cleverness. For workloads."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import count
from typing import TypeVar

from headrace.errors import ConnectionLostError
from headrace.testing.failures import StalledError
from headrace.wire.catalogue import VERSION, VERSION_OLDEST
from headrace.wire.commands import Hello
from headrace.wire.commands.kinds import Command
from headrace.wire.frames import FrameDecoder, encode

C = TypeVar("C", bound=Command)

_READ_BYTES: int = 1 << 16

GIVES_UP_BELOW_S: float = 5.0
"""A caller with a timeout below this gives up on purpose."""


class WireClient:
    """One connection to a segment store. One caller at a time.

    With ``must_answer_s`` a server that does not answer in that time is stalled, and that is an error.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        must_answer_s: float | None = None,
    ) -> None:
        self._must_answer_s = must_answer_s
        self._reader = reader
        self._writer = writer
        self._decoder = FrameDecoder.for_client()
        self._request_ids = count(1)

    @classmethod
    async def connect(
        cls, host: str, port: int, timeout_s: float = 5.0, must_answer_s: float | None = None
    ) -> WireClient:
        """Open a connection and exchange greetings.

        Raises:
            ConnectionLostError: no server there, or no connection in time.
        """
        try:
            async with asyncio.timeout(timeout_s):
                client = cls(*await asyncio.open_connection(host, port), must_answer_s)
        except (OSError, TimeoutError) as error:
            raise ConnectionLostError(f"{host}:{port}: {error}") from error
        try:
            await client.call(Hello(VERSION, VERSION_OLDEST), timeout_s)
        except BaseException:
            client.close()
            raise
        return client

    def new_request_id(self) -> int:
        return next(self._request_ids)

    async def call(self, request: Command, timeout_s: float = 10.0) -> Command:
        """Send ``request`` and return the next reply; its views are valid until the next call.

        Raises:
            ConnectionLostError: no reply; the request may have happened. The connection is of no more use.
        """
        await self.send([request], timeout_s)
        return await self.receive(timeout_s)

    async def send(self, requests: Sequence[Command], timeout_s: float = 10.0) -> None:
        """Send requests in one piece.

        Raises:
            ConnectionLostError: any of them may have arrived.
            StalledError: the server does not take them.
        """
        try:
            async with asyncio.timeout(self._limit(timeout_s)):
                self._writer.write(b"".join(encode(request) for request in requests))
                await self._writer.drain()
        except TimeoutError as error:
            self._check_may_give_up(timeout_s)
            raise ConnectionLostError("not sent in time") from error
        except OSError as error:
            raise ConnectionLostError(str(error)) from error

    async def receive(self, timeout_s: float = 10.0) -> Command:
        """Return the next reply; its views are valid until the next call.

        Raises:
            ConnectionLostError: there is none.
            StalledError: the server says nothing.
        """
        try:
            async with asyncio.timeout(self._limit(timeout_s)):
                while (reply := self._decoder.next_command()) is None:
                    data = await self._reader.read(_READ_BYTES)
                    if not data:
                        raise ConnectionLostError("closed by the server")
                    self._decoder.feed(data)
                return reply
        except TimeoutError as error:
            self._check_may_give_up(timeout_s)
            raise ConnectionLostError("no reply in time") from error
        except OSError as error:
            raise ConnectionLostError(str(error)) from error

    def _limit(self, timeout_s: float) -> float:
        if self._must_answer_s is None or timeout_s < GIVES_UP_BELOW_S:
            return timeout_s
        return self._must_answer_s

    def _check_may_give_up(self, timeout_s: float) -> None:
        """That time is over. Raises: StalledError if it must not be."""
        if self._limit(timeout_s) == self._must_answer_s:
            raise StalledError(
                f"nothing disturbs the server, and it does not answer in {self._must_answer_s} s"
            )

    def close(self) -> None:
        """Drop the connection."""
        self._writer.transport.abort()
