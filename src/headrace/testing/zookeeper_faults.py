"""A proxy between clients of ZooKeeper and a server, which does what networks and operators do.

Fault model:

* **Cut**: both connections end, at once; new ones are taken.
* **Blocked**: nothing moves in either direction, connections are taken and hear nothing. What was sent
  arrives when it ends, if the connection lives by then.
* **Refused**: new connections end at once.
* **Lost answers**: the server gets all, the client nothing, until its connection is cut.
* **Delay**: each piece takes a while, in each direction.
* **An expired session**: the server ends it, by the hand of another client that knows its password.
"""

from __future__ import annotations

import asyncio
import ssl
import struct
from contextlib import suppress
from typing import Final, Self

_PIECE_BYTES: Final = 64 * 1024
_CONNECTED: Final = struct.Struct(">iiiqi16s")
"""Length, protocol version, time-out, session id, length of the password, password."""
_CLOSE: Final = struct.pack(">iii", 8, 1, -11)


class FaultyProxy:
    """Listens on loopback for a server at ``port``. Used on one event loop, where it lives."""

    def __init__(self, port: int, *, tls: ssl.SSLContext | None = None) -> None:
        self.delay_s = 0.0
        self.loses_answers = False
        self.refuses = False
        self.connections = 0
        """How many were taken so far."""
        self._upstream = port
        self._tls = tls
        self._flows = asyncio.Event()
        self._flows.set()
        self._server: asyncio.Server | None = None
        self._links: dict[_Link, None] = {}
        self._passwords: dict[int, bytes] = {}

    @property
    def port(self) -> int:
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.refuses = True
        self.flow()
        self.cut()

    @property
    def sessions(self) -> set[int]:
        """Those that began or went on through here."""
        return set(self._passwords)

    def cut(self) -> None:
        """End all connections."""
        for link in list(self._links):
            link.cut()

    def block(self) -> None:
        """Let nothing through, until :meth:`flow`."""
        self._flows.clear()

    def flow(self) -> None:
        self._flows.set()

    async def expire(self, session_id: int) -> None:
        """End a session at the server, and cut its connections."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._upstream)
        writer.write(struct.pack(">iiqiqi", 44, 0, 0, 10_000, session_id, 16) + self._passwords[session_id])
        with suppress(ConnectionError, asyncio.IncompleteReadError):  # it had expired already
            await reader.readexactly(_CONNECTED.size)
            writer.write(_CLOSE)
            await reader.read()
        writer.close()
        for link in list(self._links):
            if link.session_id == session_id:
                link.cut()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        link = _Link([writer])
        self._links[link] = None
        try:
            if self.refuses:
                return
            answers, requests = await asyncio.open_connection("127.0.0.1", self._upstream)
            link.writers.append(requests)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(reader, requests, link, answers=False))
                group.create_task(self._pump(answers, writer, link, answers=True))
        except OSError:
            pass  # no server
        finally:
            del self._links[link]
            link.cut()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, link: _Link, *, answers: bool
    ) -> None:
        with suppress(ConnectionError, ssl.SSLError):
            while piece := await reader.read(_PIECE_BYTES):
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                await self._flows.wait()
                if answers and self.loses_answers:
                    continue
                if answers and not link.session_id:
                    _, _, granted_ms, link.session_id, _, password = _CONNECTED.unpack_from(piece)
                    if granted_ms > 0:  # else it has expired
                        self._passwords[link.session_id] = password
                writer.write(piece)
                await writer.drain()
        link.cut()


class _Link:
    """A client's connection, and the one behind it."""

    def __init__(self, writers: list[asyncio.StreamWriter]) -> None:
        self.writers = writers
        self.session_id = 0

    def cut(self) -> None:
        for writer in self.writers:
            writer.transport.abort()
