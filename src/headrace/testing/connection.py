"""Two ends of a simulated connection: asyncio transports over two pipes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import Any, Final, Protocol

from headrace.limits import KIB
from headrace.testing.pipe import Links, Pipe, Signal
from headrace.testing.process import CURRENT_PROCESS

_READ_BYTES_MAX: Final = 256 * KIB
_HIGH_DEFAULT: Final = 64 * KIB

Address = tuple[str, int]


class Network(Links, Protocol):
    """What a connection needs of its network."""

    def is_silent(self, host: str) -> bool:
        """Say whether the machine has no power."""

    def count_drop(self) -> None: ...
    def add(self, transport: SimulatedTransport) -> None: ...
    def forget(self, transport: SimulatedTransport) -> None: ...


def connect_pair(
    network: Network, near: Address, far: Address, near_context: Context, far_context: Context
) -> tuple[SimulatedTransport, SimulatedTransport]:
    """Return the two ends of a new connection, neither begun."""
    there, back = Pipe(network), Pipe(network)
    one = SimulatedTransport(network, near, far, near_context, outgoing=there, incoming=back)
    other = SimulatedTransport(network, far, near, far_context, outgoing=back, incoming=there)
    there.join(one, other)
    back.join(other, one)
    return one, other


class SimulatedSocket:
    """What programs ask a socket for."""

    def __init__(self, address: Address) -> None:
        self._address = address

    def getsockname(self) -> Address:
        return self._address

    def setsockopt(self, *options: object) -> None:
        """Options change nothing here."""

    def fileno(self) -> int:
        return -1


class SimulatedTransport(asyncio.Transport):
    """One end. Calls its protocol in the process that made the end."""

    def __init__(
        self,
        network: Network,
        name: Address,
        peer: Address,
        context: Context,
        *,
        outgoing: Pipe,
        incoming: Pipe,
    ) -> None:
        super().__init__({"sockname": name, "peername": peer, "socket": SimulatedSocket(name)})
        self.host, self.port = name
        self.peer_host = peer[0]
        self.context = context
        self.process = context.get(CURRENT_PROCESS)
        self.lost = False
        """The connection has ended for this end."""
        self._network = network
        self._outgoing = outgoing
        self._incoming = incoming
        self._protocol: asyncio.BaseProtocol | None = None
        self._on_end: Callable[[SimulatedTransport], None] | None = None
        self._closing = False
        self._end_written = False
        self._end_seen = False
        self._reading_paused = False
        self._writing_paused = False
        self._delivery_planned = False
        self._high = _HIGH_DEFAULT
        self._low = _HIGH_DEFAULT // 4
        self._lost_with: Exception | None = None
        network.add(self)

    def begin(
        self, protocol: asyncio.BaseProtocol, on_end: Callable[[SimulatedTransport], None] | None = None
    ) -> None:
        """Introduce the protocol; called in its process. ``on_end`` is called after ``connection_lost``."""
        self._protocol = protocol
        self._on_end = on_end
        protocol.connection_made(self)
        if self.lost:
            self._plan(self._finish, self._lost_with)
        else:
            self.plan_delivery()

    # ---- what programs do: writing

    def write(self, data: Any) -> None:
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"data argument must be a bytes-like object, not {type(data).__name__}")
        if self._end_written:
            raise RuntimeError("Cannot call write() after write_eof()")
        if self._closing or not data:
            return
        self._outgoing.write(memoryview(data).cast("B"))
        if self._outgoing.written_bytes > self._high and not self._writing_paused:
            self._writing_paused = True
            assert self._protocol is not None
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        for data in list_of_data:
            self.write(data)

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if self._closing or self._end_written:
            return
        self._end_written = True
        self._outgoing.end()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is None:
            high = _HIGH_DEFAULT if low is None else 4 * low
        low = high // 4 if low is None else low
        if not high >= low >= 0:
            raise ValueError(f"high ({high!r}) must be >= low ({low!r}) must be >= 0")
        self._high, self._low = high, low

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def get_write_buffer_size(self) -> int:
        return self._outgoing.written_bytes

    # ---- what programs do: reading

    def pause_reading(self) -> None:
        self._reading_paused = True

    def resume_reading(self) -> None:
        self._reading_paused = False
        self.plan_delivery()

    def is_reading(self) -> bool:
        return not self._reading_paused and not self._closing

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._protocol is not None
        return self._protocol

    # ---- what programs do: ending

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        if not self._outgoing.written_bytes:
            self._leave()

    def abort(self) -> None:
        if self.lost:
            return
        self._outgoing.signal(Signal.RESET)
        self._lose(None)

    # ---- what the network does

    def drop(self) -> None:
        """The connection drops now; both ends learn of it later."""
        self._network.count_drop()
        self._outgoing.cut()
        self._incoming.cut()

    def die(self) -> None:
        """The process of this end was killed: its kernel closes the connection, unless the machine is off."""
        if self.lost:
            return
        self.lost = self._closing = True
        if not self._network.is_silent(self.host):
            self._outgoing.signal(Signal.RESET if self._network.entropy.randbelow(2) else Signal.END)
        self._network.forget(self)

    def resume_arrivals(self) -> None:
        """Blocks were taken back somewhere."""
        self._outgoing.resume()
        self._incoming.resume()

    # ---- what the pipes do

    def on_pumped(self) -> None:
        left = self._outgoing.written_bytes
        if self._writing_paused and left <= self._low:
            self._writing_paused = False
            assert self._protocol is not None
            self._protocol.resume_writing()
        if self._closing and not left and not self.lost:
            self._leave()

    def plan_delivery(self) -> None:
        if not self._delivery_planned and not self._reading_paused:
            self._delivery_planned = True
            self._plan(self._deliver)

    def lose(self, error: Exception) -> None:
        self._lose(error)

    def answer_reset(self) -> None:
        if not self._network.is_silent(self.host):
            self._outgoing.signal(Signal.RESET)

    # ---- inside

    def _deliver(self) -> None:
        self._delivery_planned = False
        if self._closing or self._reading_paused or self._protocol is None:
            return
        try:
            if data := self._incoming.take(_READ_BYTES_MAX):
                self._feed(data)
            elif self._incoming.ended and not self._end_seen:
                self._end_seen = True
                self._feed_end()
        except Exception as error:  # noqa: BLE001 - as asyncio does: report, and give the connection up
            message = "Fatal error: a protocol callback failed."
            self._network.loop.call_exception_handler(
                {"message": message, "exception": error, "transport": self}
            )
            self._outgoing.signal(Signal.RESET)
            self._lose(error)
            return
        if self._incoming.has_arrived or (self._incoming.ended and not self._end_seen):
            self.plan_delivery()

    def _feed(self, data: bytes) -> None:
        protocol = self._protocol
        if not isinstance(protocol, asyncio.BufferedProtocol):
            assert isinstance(protocol, asyncio.Protocol)
            protocol.data_received(data)
            return
        rest = memoryview(data)
        while rest:
            buffer = memoryview(protocol.get_buffer(len(rest))).cast("B")
            if not buffer:
                raise RuntimeError("get_buffer() returned an empty buffer")
            count = min(len(rest), len(buffer))
            buffer[:count] = rest[:count]
            del buffer
            rest = rest[count:]
            protocol.buffer_updated(count)
            if rest and (self._closing or self._reading_paused):
                self._incoming.put_back(bytes(rest))
                return

    def _feed_end(self) -> None:
        assert isinstance(self._protocol, (asyncio.Protocol, asyncio.BufferedProtocol))
        if not self._protocol.eof_received():
            self.close()

    def _leave(self) -> None:
        """Everything written is sent: end, or reset if the peer's data was left unread, as kernels do."""
        if self._incoming.has_arrived:
            self._outgoing.signal(Signal.RESET)
        elif not self._end_written:
            self._outgoing.signal(Signal.END)
        self._lose(None)

    def _lose(self, error: Exception | None) -> None:
        if self.lost:
            return
        self.lost = self._closing = True
        self._lost_with = error
        if self._protocol is not None:
            self._plan(self._finish, error)

    def _finish(self, error: Exception | None) -> None:
        assert self._protocol is not None
        self._network.forget(self)
        try:
            self._protocol.connection_lost(error)
        finally:
            if self._on_end is not None:
                self._on_end(self)

    def _plan(self, callback: Callable[..., None], *args: Any) -> None:
        self._network.loop.call_soon(callback, *args, context=self.context)
