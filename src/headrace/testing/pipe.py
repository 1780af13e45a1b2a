"""One direction of a simulated connection, from ``write`` at one end to arrival at the other.

The way of a byte: it is *written* into the sender's buffer; the *pump* takes a piece from there, now
copied, and sends it off if the window has free bytes; it is *in flight*; it has *arrived* in the receiver's
buffer unless the link is blocked; the receiving transport *takes* it from there.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from contextvars import Context
from enum import Enum
from typing import Protocol

from headrace.runtime.entropy import SeededEntropy
from headrace.testing.loop import SimulatedLoop
from headrace.testing.network_config import NetworkConfig


class Signal(Enum):
    """What else can be in flight in a pipe."""

    END = "end"
    RESET = "reset"


class Links(Protocol):
    """What a pipe needs of its network."""

    loop: SimulatedLoop
    entropy: SeededEntropy
    config: NetworkConfig
    context: Context

    def delay_s(self, count: int = 0) -> float:
        """Return the seconds that ``count`` bytes take this time."""

    def is_blocked(self, source: str, target: str) -> bool:
        """Say whether nothing gets from one host to the other."""

    def draws_drop(self) -> bool:
        """Let chance decide whether a connection drops."""

    def count_arrived(self, count: int) -> None: ...


class End(Protocol):
    """What a pipe needs of the transport at its either end."""

    host: str
    context: Context
    lost: bool

    def on_pumped(self) -> None:
        """The pump took bytes, in this end's process; the buffer may have free bytes."""

    def plan_delivery(self) -> None:
        """Something has arrived."""

    def lose(self, error: Exception) -> None:
        """The connection is gone, as this end learns now."""

    def drop(self) -> None:
        """The connection drops now; both ends learn of it later."""

    def answer_reset(self) -> None:
        """Something came for an end that is no longer there: reset the connection of the other end."""


class Pipe:
    """One direction. Its sender writes, its receiver takes; the network moves."""

    sender: End
    receiver: End

    def __init__(self, network: Links) -> None:
        self._network = network
        self._written: deque[memoryview] = deque()
        self.written_bytes = 0
        """In the sender's buffer."""
        self._in_flight: deque[tuple[float, bytes | Signal]] = deque()
        self._arrived: deque[bytes] = deque()
        self.ended = False
        """Whether the end of the stream has arrived."""
        self._window_used = 0
        self._arrives_last = 0.0
        self._pump_planned = False
        self._end_wanted = False
        self._broken = False
        self._stalled_since: float | None = None

    def join(self, sender: End, receiver: End) -> None:
        """Set the two ends; once."""
        self.sender = sender
        self.receiver = receiver

    # ---- at the sender

    def write(self, data: memoryview) -> None:
        """Put ``data`` behind what waits to be sent; it is not copied before it is sent."""
        if self._broken:
            return
        self._written.append(data)
        self.written_bytes += data.nbytes
        self._plan_pump()

    def end(self) -> None:
        """Send the end of the stream behind everything written."""
        self._end_wanted = True
        self._plan_pump()

    def signal(self, signal: Signal) -> None:
        """Send a signal off at once, behind what is in flight; what is only written is forgotten."""
        self._forget_written()
        self._send(signal)

    def cut(self) -> None:
        """Drop: what is in flight arrives up to some point, then a reset does; nothing more is accepted."""
        self._broken = True
        arriving = self._network.entropy.randbelow(len(self._in_flight) + 1)
        while len(self._in_flight) > arriving:
            self._in_flight.pop()
        self.signal(Signal.RESET)

    def _plan_pump(self) -> None:
        if not self._pump_planned and not self.sender.lost and (self._written or self._end_wanted):
            self._pump_planned = True
            self._network.loop.call_soon(self._pump, context=self.sender.context)

    def _pump(self) -> None:
        self._pump_planned = False
        while self._written and self._window_used < self._network.config.window_bytes:
            if self._network.draws_drop():
                self.sender.drop()
                return
            piece = self._take_piece()
            self._window_used += len(piece)
            self._send(piece)
        if self._end_wanted and not self._written:
            self._end_wanted = False
            self._send(Signal.END)
        self.sender.on_pumped()

    def _take_piece(self) -> bytes:
        network = self._network
        left = min(network.config.piece_bytes_max, self.written_bytes)
        if network.entropy.random() < network.config.cut_chance:
            bound = 1 << network.entropy.randbelow(left.bit_length())  # a few bytes as likely as many
            left = 1 + network.entropy.randbelow(min(bound, left))
        piece = bytearray()
        while left:
            head = self._written.popleft()
            if head.nbytes > left:
                self._written.appendleft(head[left:])
                head = head[:left]
            piece += head
            left -= head.nbytes
        self.written_bytes -= len(piece)
        return bytes(piece)

    def _send(self, item: bytes | Signal) -> None:
        loop = self._network.loop
        count = len(item) if isinstance(item, bytes) else 0
        at = max(self._arrives_last, loop.machine_time() + self._network.delay_s(count))
        self._arrives_last = at
        self._in_flight.append((at, item))
        loop.call_at_machine_time(at, self._arrive, context=self._network.context)

    def _forget_written(self) -> None:
        self._written.clear()
        self.written_bytes = 0
        self._end_wanted = False

    # ---- in flight

    def resume(self) -> None:
        """Blocks were removed: what is stalled moves on."""
        if self._stalled_since is not None:
            loop = self._network.loop
            at = loop.machine_time() + self._network.delay_s()
            loop.call_at_machine_time(at, self._arrive, context=self._network.context)

    def _arrive(self) -> None:
        now = self._network.loop.machine_time()
        while self._in_flight and self._in_flight[0][0] <= now:
            if self._network.is_blocked(self.sender.host, self.receiver.host):
                self._stall(now)
                return
            self._stalled_since = None
            self._land(self._in_flight.popleft()[1])

    def _land(self, item: bytes | Signal) -> None:
        if self.receiver.lost:
            if isinstance(item, bytes):
                self.receiver.answer_reset()
        elif item is Signal.RESET:
            self.receiver.lose(ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)))
        elif item is Signal.END:
            self.ended = True
            self.receiver.plan_delivery()
        else:
            assert isinstance(item, bytes)
            self._arrived.append(item)
            self._network.count_arrived(len(item))
            self.receiver.plan_delivery()

    def _stall(self, now: float) -> None:
        if self._stalled_since is None:
            self._stalled_since = now
            network = self._network
            timeout_at = now + network.config.stall_timeout_s
            network.loop.call_at_machine_time(timeout_at, self._give_up, now, context=network.context)

    def _give_up(self, since: float) -> None:
        if self._stalled_since != since or self.sender.lost:
            return
        self._broken = True
        self._forget_written()
        self._in_flight.clear()
        self.sender.lose(TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)))

    # ---- at the receiver

    @property
    def has_arrived(self) -> bool:
        """Whether there are bytes to take."""
        return bool(self._arrived)

    def take(self, bytes_max: int) -> bytes:
        """Return bytes that have arrived, several pieces as one, and release their part of the window."""
        taken: list[bytes] = []
        left = bytes_max
        while self._arrived and left:
            head = self._arrived.popleft()
            if len(head) > left:
                self._arrived.appendleft(head[left:])
                head = head[:left]
            taken.append(head)
            left -= len(head)
        self._window_used -= bytes_max - left
        self._plan_pump()
        return b"".join(taken)

    def put_back(self, rest: bytes) -> None:
        """Take back what was taken and could not be delivered."""
        self._arrived.appendleft(rest)
        self._window_used += len(rest)

    def check(self) -> None:
        """Assert the invariants."""
        in_flight = sum(len(item) for _, item in self._in_flight if isinstance(item, bytes))
        arrived = sum(len(piece) for piece in self._arrived)
        assert self.written_bytes == sum(view.nbytes for view in self._written)
        assert in_flight + arrived <= self._window_used  # less, if some were dropped on the way
        assert self._window_used < self._network.config.window_bytes + self._network.config.piece_bytes_max
