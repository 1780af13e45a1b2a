"""TLS over a transport of the loop, for servers.

The TLS of the loops would hide the transport below, where encrypted bytes wait for a slow client: they could
be neither counted nor bounded, and nobody would be notified once they are sent. Here every unsent byte is in
the transport below, so that its counts and notifications hold for the encrypted connection as for a plain
one. A handshake takes the context that is current when it begins, so certificates can be exchanged.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Callable, Iterable
from typing import Any, Final, cast

from headrace.limits import KIB

_logger = logging.getLogger(__name__)

ContextSource = Callable[[], ssl.SSLContext]
"""Returns the context of the next handshake."""

HANDSHAKE_S: Final = 10.0
"""A client that has not finished its handshake after this time is closed."""

HANDSHAKES_MAX: Final = 1024
"""Handshakes at a time, unless whoever accepts connections has a bound of its own."""

_PIECE_BYTES: Final = 64 * KIB
"""So much is received, or encrypted, at a time: what a connection retains is that small."""


class TlsAcceptor:
    """What the encrypted connections of one listener share. Used on its loop."""

    def __init__(self, context: ContextSource, admits: Callable[[], bool] | None = None) -> None:
        """Take the context of every handshake from ``context``; ``admits`` says if one more may begin."""
        self.context = context
        self.admits = admits or (lambda: len(self.handshakes) < HANDSHAKES_MAX)
        self.handshakes: dict[TlsTransport, None] = {}
        """Connections whose handshake is not finished."""
        self.failures = 0
        """Handshakes that failed since the start."""
        self.buffer = memoryview(bytearray(_PIECE_BYTES))
        """Where all of them receive: bytes are moved on before another one does."""

    def accept(self, make_protocol: Callable[[], asyncio.BaseProtocol]) -> asyncio.BaseProtocol:
        """Return the protocol of a new connection; the one of ``make_protocol`` is made, and connected to
        the encrypted transport, after the handshake.
        """
        return TlsTransport(self, make_protocol)

    def close(self) -> None:
        """End the handshakes that are not finished."""
        for each in list(self.handshakes):
            each.abort()


class TlsTransport(asyncio.Transport, asyncio.BufferedProtocol):
    """One encrypted connection: a protocol to the transport below, a transport to the protocol above."""

    def __init__(self, acceptor: TlsAcceptor, make_protocol: Callable[[], asyncio.BaseProtocol]) -> None:
        super().__init__()
        self._acceptor = acceptor
        self._make_protocol = make_protocol
        self._loop = asyncio.get_running_loop()
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._below: asyncio.Transport
        self._tls: ssl.SSLObject
        self._protocol: asyncio.BaseProtocol | None = None
        self._writes_vectors = False
        self._timer: asyncio.TimerHandle | None = None
        self._has_received = False
        self._paused = False
        self._eof_received = False
        self._eof_passed_on = False
        self._closing = False
        self._unasked_bytes = 0
        """Of answers that TLS itself gave since the client last took everything."""

    # -------------------------------------------------------------------------- from the transport below

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._below = cast("asyncio.Transport", transport)  # some loops have types of their own
        # As transports of asyncio report unsent bytes of single writes only.
        self._writes_vectors = type(transport).__module__.startswith("uvloop")
        self._tls = self._acceptor.context().wrap_bio(self._incoming, self._outgoing, server_side=True)
        if not self._acceptor.admits():
            self.abort()
            return
        self._acceptor.handshakes[self] = None
        self._timer = self._loop.call_later(
            HANDSHAKE_S, self._fail, f"it is not finished after {HANDSHAKE_S:g} s"
        )

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the size is fixed
        return self._acceptor.buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self._closing or self._eof_received:
            return  # what follows the client's last word would only fill memory
        self._has_received = True
        self._incoming.write(self._acceptor.buffer[:nbytes])
        if self._protocol is None:
            self._shake_hands()
        if self._protocol is not None:
            self._pass_on()

    def eof_received(self) -> bool:
        """The client sends nothing more, with or without having said so: frames tell if one is cut off."""
        if self._protocol is None:
            if self._has_received:  # else nobody wanted a handshake, as when only the port is probed
                self._fail("the client ended it")
            return False
        self._eof_received = True
        self._pass_on()
        return True  # until the protocol closes

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        self._end_handshake()
        protocol, self._protocol = self._protocol, None
        if protocol is not None:
            protocol.connection_lost(exc)

    def pause_writing(self) -> None:
        if self._protocol is not None:
            self._protocol.pause_writing()

    def resume_writing(self) -> None:
        if self._protocol is not None:
            self._protocol.resume_writing()

    # -------------------------------------------------------------------------------------- handshake

    def _shake_hands(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._hand_down([])
        except ssl.SSLError as error:
            self._hand_down([])  # says to the client why
            self._fail(_reason_of(error))
        else:
            self._hand_down([])
            self._end_handshake()
            self._protocol = self._make_protocol()
            self._protocol.connection_made(self)

    def _fail(self, why: str) -> None:
        self._acceptor.failures += 1
        _logger.info("TLS handshake of %s failed: %s", self._below.get_extra_info("peername"), why)
        self._end_handshake()
        self._closing = True
        if self._below.get_write_buffer_size():
            self._below.abort()
        else:
            self._below.close()

    def _end_handshake(self) -> None:
        self._acceptor.handshakes.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # -------------------------------------------------------------------------------------- receiving

    def _pass_on(self) -> None:
        """Decrypt what was received, for the protocol, as long as it takes some."""
        try:
            while not (self._paused or self._closing) and self._pass_on_some():
                pass
        except ssl.SSLError as error:
            _logger.info(
                "connection %s is closed: TLS: %s", self.get_extra_info("peername"), _reason_of(error)
            )
            self.abort()
            return
        if self._closing:
            return
        if self._outgoing.pending and not self._answer_by_itself():
            return
        if self._eof_received and not (self._paused or self._eof_passed_on):
            self._eof_passed_on = True
            assert isinstance(self._protocol, asyncio.Protocol | asyncio.BufferedProtocol)
            if not self._protocol.eof_received():
                self.close()

    def _answer_by_itself(self) -> bool:
        """Send what TLS answers without the protocol, such as new keys; return False if the client is closed
        instead, because it takes none of these answers: no bound of the protocol would hold for them.
        """
        if not self._below.get_write_buffer_size():
            self._unasked_bytes = 0
        self._unasked_bytes += self._outgoing.pending
        if self._unasked_bytes <= _PIECE_BYTES:
            self._hand_down([])
            return True
        peer = self.get_extra_info("peername")
        _logger.info("connection %s is closed: TLS: its answers are not taken", peer)
        self.abort()
        return False

    def _pass_on_some(self) -> bool:
        """Fill the buffer of the protocol once; return whether there may be more."""
        protocol = self._protocol
        if isinstance(protocol, asyncio.BufferedProtocol):
            buffer = memoryview(protocol.get_buffer(-1))
            count = self._decrypt(buffer)
            if count:
                protocol.buffer_updated(count)
            return count == len(buffer)
        assert isinstance(protocol, asyncio.Protocol)
        data = bytearray(_PIECE_BYTES)
        count = self._decrypt(memoryview(data))
        if count:
            protocol.data_received(bytes(data[:count]))
        return count == len(data)

    def _decrypt(self, buffer: memoryview) -> int:
        count = 0
        with contextlib.suppress(ssl.SSLWantReadError):
            while count < len(buffer):
                some = self._tls.read(len(buffer) - count, buffer[count:])
                if not some:
                    self._eof_received = True
                    break
                count += cast("int", some)
        return count

    def pause_reading(self) -> None:
        if not self._paused:
            self._paused = True
            self._below.pause_reading()

    def resume_reading(self) -> None:
        if self._paused:
            self._paused = False
            self._below.resume_reading()
            self._loop.call_soon(self._pass_on)  # there may be no further byte that would cause it

    def is_reading(self) -> bool:
        return not (self._paused or self._closing)

    # -------------------------------------------------------------------------------------- sending

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writelines((data,))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """Encrypt everything now: the caller's buffers are free when this returns."""
        if self._closing:
            return
        pieces: list[bytes] = []
        try:
            for data in list_of_data:
                view = memoryview(data)
                for start in range(0, len(view), _PIECE_BYTES):
                    self._tls.write(view[start : start + _PIECE_BYTES])
                    if self._outgoing.pending >= _PIECE_BYTES:
                        pieces.append(self._outgoing.read())
        except ssl.SSLError as error:
            _logger.info(
                "connection %s is closed: TLS: %s", self.get_extra_info("peername"), _reason_of(error)
            )
            self.abort()
            return
        self._hand_down(pieces)

    def _hand_down(self, pieces: list[bytes]) -> None:
        """Give the transport below encrypted ``pieces``, and what was encrypted behind them."""
        if self._outgoing.pending:
            pieces.append(self._outgoing.read())
        if self._writes_vectors and len(pieces) > 1:
            self._below.writelines(pieces)
        else:
            for piece in pieces:
                self._below.write(piece)

    def get_write_buffer_size(self) -> int:
        """Return how many encrypted bytes are unsent."""
        return self._below.get_write_buffer_size()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._below.get_write_buffer_limits()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._below.set_write_buffer_limits(high, low)

    def can_write_eof(self) -> bool:
        return False

    # -------------------------------------------------------------------------------------- the rest

    def close(self) -> None:
        """Say the end to the client behind everything sent, and close."""
        if not self._closing:
            self._closing = True
            with contextlib.suppress(ssl.SSLError):  # the client has not said so
                self._tls.unwrap()
            self._hand_down([])
            self._below.close()

    def abort(self) -> None:
        self._closing = True
        self._below.abort()

    def is_closing(self) -> bool:
        return self._closing or self._below.is_closing()

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._protocol is not None
        return self._protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "sslcontext":
            return self._tls.context
        if name == "ssl_object":
            return self._tls
        return self._below.get_extra_info(name, default)


def _reason_of(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is refused: {error.verify_message}"
    return (error.reason or "not TLS").lower().replace("_", " ")
