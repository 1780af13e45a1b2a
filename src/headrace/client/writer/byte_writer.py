"""Writes a stream of one segment as plain bytes, like a file that only grows.

Bytes are not framed, so such a stream is not for event readers. A segment that is sealed, by scaling or by
hand, ends the byte stream. Several writers may append at once: pieces stay whole, their order is that of
their arrival.

Source: protocol, "Byte-stream client".
"""

from __future__ import annotations

import asyncio

from headrace.client.config import APPEND_BLOCK_BYTES_MAX, WriterConfig
from headrace.client.description import described, writer_state
from headrace.client.framing.event_frames import own_bytes
from headrace.client.segment_address import SegmentAddress
from headrace.client.segment_calls import SegmentCalls
from headrace.client.services import ClientServices
from headrace.client.writer.ack import Ack
from headrace.client.writer.closable_writer import ClosableWriter
from headrace.client.writer.inflight_window import Block
from headrace.client.writer.segment_output import SegmentOutput
from headrace.errors import HeadraceError, SegmentSealedError, ThrottledError


class ByteWriter(ClosableWriter):
    """Made by :meth:`Client.byte_writer`. Used on one loop."""

    unit = "bytes"

    def __init__(
        self, address: SegmentAddress, services: ClientServices, calls: SegmentCalls, config: WriterConfig
    ) -> None:
        super().__init__(f"{address.scope}/{address.stream}", services.open_writers)
        self.address = address
        self._uri = services.uri
        self._calls = calls
        self._window_bytes = config.window_bytes(1)
        self._output = SegmentOutput(address, services, config, self)
        self._unacknowledged_bytes = 0
        self._window_waiter: asyncio.Future[None] | None = None

    def __repr__(self) -> str:
        state = writer_state(
            closed=self.stopped, error=self._error, unacknowledged_bytes=self._unacknowledged_bytes
        )
        return described("aio.ByteWriter", f"{self.address.scope}/{self.address.stream}", self._uri, state)

    def write(self, data: bytes | bytearray | memoryview) -> Ack:
        """Append bytes; more than 8 MiB are appended in several pieces.

        Raises:
            ThrottledError: the window is full; await :meth:`drain` first. Nothing was taken.
            InvalidArgumentError: these are no bytes.
            SegmentSealedError: the byte stream has ended.
        """
        if self.stopped:
            self.on_told()
            raise self.refusal()
        if self._unacknowledged_bytes >= self._window_bytes:
            raise ThrottledError(
                f"{self._unacknowledged_bytes} bytes of {self.address.name} are unacknowledged"
            )
        whole = memoryview(own_bytes(data))
        ack = Ack(1)
        for begin in range(0, len(whole), APPEND_BLOCK_BYTES_MAX):
            piece = whole[begin : begin + APPEND_BLOCK_BYTES_MAX]
            ack.add_parts(1)
            self._unacknowledged_bytes += len(piece)
            self._output.add_block(Block([piece], len(piece), 1, None, [ack]))
        ack.settle_part()
        return ack

    async def drain(self) -> None:
        """Wait until at most half of the window is used. Raises why the writer failed, if it did."""
        self._check_loop()
        while self._unacknowledged_bytes > self._window_bytes // 2 and not self.stopped:
            if self._window_waiter is None or self._window_waiter.done():
                self._window_waiter = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._window_waiter)  # other callers may wait for it, too
        if self._error is not None:
            self.on_told()
            raise self._error

    async def _settle(self) -> None:
        barrier = Ack(1)
        barrier.is_told = True
        if self._output.has_work:
            self._output.add_barrier(barrier)
        barrier.settle_part()
        await barrier
        if self._error is not None:
            raise self._error

    async def tail_offset(self) -> int:
        """Return the length of the byte stream."""
        return (await self._calls.info(self.address)).length

    async def head_offset(self) -> int:
        """Return where the byte stream begins: what is in front was truncated."""
        return (await self._calls.info(self.address)).start_offset

    async def truncate(self, offset: int) -> None:
        """Drop everything below ``offset``."""
        await self._calls.truncate(self.address, offset)

    async def seal(self) -> None:
        """Make everything durable, then allow no more appends."""
        await self.flush()
        await self._calls.seal(self.address)

    def abandon(self, error: HeadraceError) -> None:
        """Leave now. What is not durable fails with ``error``, and the writer with it."""
        self._stop_taking()
        self._output.leave()
        if self._output.has_work:
            self.on_output_failed(self._output, error)

    def _stop_taking(self) -> None:
        super()._stop_taking()
        self._wake_waiters()

    # ------------------------------------------------------------------------------ for the output

    @property
    def is_loaded(self) -> bool:
        """Pieces are blocks of their own: there is nothing to wait for."""
        return False

    def on_durable(self, event_count: int, size_bytes: int) -> None:  # noqa: ARG002 - bytes have no events
        """Release bytes of the window."""
        self._release(size_bytes)

    def _release(self, size_bytes: int) -> None:
        self._unacknowledged_bytes -= size_bytes
        self._wake_waiters()

    def _wake_waiters(self) -> None:
        if self._window_waiter is not None and not self._window_waiter.done():
            self._window_waiter.set_result(None)

    def on_segment_ended(self, output: SegmentOutput) -> None:
        """There are no successors to go to."""
        self.on_output_failed(output, SegmentSealedError(self.address.name))

    def on_output_failed(self, output: SegmentOutput, error: HeadraceError) -> None:
        """Fail what is unacknowledged, and everything from now on."""
        self._fail(error)
        for block in output.take_blocks():
            self._failed.append((block.size_bytes, block.acks))
            self._release(block.size_bytes)
            block.fail(error)
