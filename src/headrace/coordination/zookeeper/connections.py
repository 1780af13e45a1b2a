"""The connections that kazoo makes: with TLS of ours, cut when we say so, and none after the session's end.

kazoo takes whatever authority the system trusts, begins a new session by itself when one has expired, finds
no silent server while requests are sent, and keeps to itself for how long the server granted the session. It
asks its handler for every socket, which is where all four are mended.
"""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from contextlib import suppress
from typing import Any, Final

from kazoo.handlers.threading import SequentialThreadingHandler

_GRANT: Final = struct.Struct(">iiiq")
"""The head of the answer to a connect request: length, protocol version, time-out in ms, session id."""


class Connections(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """The handler of one client, which is one session. Its threads are kazoo's."""

    def __init__(self, connect_s: float, tls: ssl.SSLContext | None) -> None:
        super().__init__()
        self.granted_s = 0.0
        """For how long the session lives without a sign of life, as the server said last."""
        self.session_id = 0
        self.last_error: OSError | None = None
        """Why the last attempt to connect failed."""
        self._connect_s = connect_s
        self._tls = tls
        self._socket: socket.socket | None = None
        self._ended = threading.Event()

    def create_connection(
        self, address: tuple[str, int], hostname: str | None = None, **_: object
    ) -> _ListenedSocket:
        """Connect for kazoo, in its thread."""
        if self._ended.is_set():
            raise ConnectionAbortedError("the session is over")
        try:
            made = socket.create_connection(address, self._connect_s)
            try:
                made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if self._tls is not None:
                    made = self._tls.wrap_socket(made, server_hostname=hostname)
            except BaseException:
                made.close()
                raise
        except OSError as error:
            self.last_error = error
            raise
        self._socket = made
        if self._ended.is_set():
            self.cut()
        return _ListenedSocket(made, self)

    def cut(self) -> None:
        """Break the present connection, if there is one: what was not answered is failed. From any thread."""
        made = self._socket
        if made is not None:
            with suppress(OSError):
                # Not by the method of an SSLSocket: a last request could be sent without encryption.
                socket.socket.shutdown(made, socket.SHUT_RDWR)

    def end(self) -> None:
        """Cut, and never connect again. From any thread."""
        self._ended.set()
        self.cut()

    def on_grant(self, granted_s: float, session_id: int) -> None:
        self.granted_s = granted_s
        self.session_id = session_id


class _ListenedSocket:
    """A socket of which the first bytes received are looked at; in all else the socket itself."""

    def __init__(self, inner: socket.socket, connections: Connections) -> None:
        self._inner = inner
        self._connections = connections
        self._head: bytes | None = b""

    def recv(self, count: int) -> bytes:
        received = self._inner.recv(count)
        if self._head is not None:
            self._head += received
            if len(self._head) >= _GRANT.size:
                _, _, granted_ms, session_id = _GRANT.unpack_from(self._head)
                self._head = None
                if granted_ms > 0:  # else the session has expired
                    self._connections.on_grant(granted_ms / 1000, session_id)
        return received

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
