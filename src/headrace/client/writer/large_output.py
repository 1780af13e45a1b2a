"""Appends to one segment, and large events among them, each in its order.

A large event begins when everything in front of it is acknowledged, and what is behind it waits. Whatever
becomes of its upload, the writer is set up again then: the number that the server has says whether it is in,
as it does for a block whose acknowledgement was lost.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, Protocol

from headrace.client.connections.connection import Connection
from headrace.client.reconnect_policy import Reconnects
from headrace.client.writer.inflight_window import Block
from headrace.client.writer.large_block import LargeBlock
from headrace.client.writer.large_upload import LargeUpload, RefusedUploadError
from headrace.client.writer.segment_output import RESUME_S, OutputOwner, OutputState, SegmentOutput
from headrace.errors import ClosedError, ConnectionLostError
from headrace.model.attributes import ATTRIBUTE_NULL
from headrace.runtime import logs
from headrace.wire.commands import (
    AppendSetup,
    AuthTokenCheckFailed,
    SegmentIsSealed,
    SegmentsMerged,
    SetupAppend,
    WrongHost,
)

_log = logs.logger(__name__)


class LargeOwner(OutputOwner, Protocol):
    """The writer that fills outputs with large events as well."""

    def on_left_out(self, size_bytes: int) -> None:
        """So much will never be durable, and nobody waits for it: release its part of the window."""


class LargeOutput(SegmentOutput):
    """A :class:`SegmentOutput` that takes :class:`LargeBlock` as well."""

    _owner: LargeOwner  # type: ignore[mutable-override] # it is given one, and set once

    def __init__(self, *args: Any, **others: Any) -> None:
        super().__init__(*args, **others)
        self._upload: asyncio.Task[None] | None = None
        """Nothing is sent meanwhile."""
        self._tries = Reconnects(self._config.reconnect)
        self._pieces = 0
        self._former_number = ATTRIBUTE_NULL
        """What the server has."""

    @property
    def acknowledged_number(self) -> int:
        """Grows with each piece as well."""
        return self._window.acknowledged_number + self._pieces

    def send_blocks(self, connection: Connection) -> None:
        """Send while it is in order to."""
        if self._upload is None:
            super().send_blocks(connection)

    def on_appended(self, previous_number: int, number: int, segment_length: int) -> None:
        """See :meth:`SegmentOutput.on_appended`."""
        self._former_number = number
        super().on_appended(previous_number, number, segment_length)

    def _on_append_setup(self, reply: AppendSetup) -> None:
        self._former_number = reply.last_event_number
        self._upload = None
        super()._on_append_setup(reply)

    def _send_large(self, block: Block) -> None:
        assert isinstance(block, LargeBlock)
        if self._window.blocks_sent:
            return  # the last acknowledgement of them wakes this output again
        if block.event.is_cancelled:
            self._leave_out(None)
            return
        connection = self._connection
        assert connection is not None
        try:
            task = self._services.supervisor.spawn(f"upload {self._name}", self._store(block, connection))
        except ClosedError as error:
            self.fail(error)
            return
        self._upload = task
        task.add_done_callback(partial(self._on_upload_ended, block))

    def _on_upload_ended(self, block: LargeBlock, task: asyncio.Task[None]) -> None:
        """React to the end of a task that was cancelled, or has a bug."""
        if task is not self._upload:
            return
        if not task.cancelled() and task.exception() is not None:
            failure = f"{self._name}: the upload of a large event failed: {task.exception()!r}"
            self.fail(ConnectionLostError(failure))
        elif task.cancelled():
            self._upload = None
            if not block.is_in_doubt:
                asyncio.get_running_loop().call_later(RESUME_S, self._resume)
            else:
                self._reconnect(ConnectionLostError(f"{self._name}: the upload was cancelled"))

    async def _store(self, block: LargeBlock, connection: Connection) -> None:
        upload = LargeUpload(self.address, self._services, connection, self._token)
        reply: Any = None
        failure: BaseException | None = None
        try:
            await upload.send(block, self._on_piece)
            if not block.event.is_cancelled:
                self._window.take_unsent(0)
                reply = await upload.merge(self._writer_id, block.last_number, self._former_number)
        except RefusedUploadError as error:
            reply = error.reply
        except Exception as error:  # noqa: BLE001 - of a file of the caller, or of its own code as well
            failure = error
        finally:
            upload.leave(is_merged=isinstance(reply, SegmentsMerged))
        if connection is not self._connection or self.state is not OutputState.READY:
            return  # it is set up again
        if isinstance(failure, ConnectionLostError):
            self._reconnect(failure)
        elif not block.is_in_doubt and (failure is not None or block.event.is_cancelled):
            self._upload = None
            self._leave_out(None if block.event.is_cancelled else failure)
        else:
            await self._look(reply)

    def _on_piece(self) -> None:
        self._pieces += 1

    async def _look(self, reply: Any) -> None:
        """Ask what the server has now."""
        match reply:
            case SegmentsMerged():
                self._tries.on_success()
                self.segment_length = max(self.segment_length, reply.new_target_write_offset)
            case SegmentIsSealed():
                self._on_sealed()
                return
            case AuthTokenCheckFailed():
                self._on_token_refused(reply.error_code)
                return
            case WrongHost():
                self._reconnect(ConnectionLostError(f"{self._name}: the host is not the owner"))
                return
            case _:
                loop = asyncio.get_running_loop()
                delay = self._tries.on_failure(loop.time(), self._services.entropy.random())
                if delay is None:
                    self.fail(ConnectionLostError(f"{self._name}: a large event was refused: {reply}"))
                    return
                _log.info("a large event is sent again", segment=self._name, delay_s=delay, reply=reply)
                await asyncio.sleep(delay)
        connection = self._connection
        if connection is not None and self.state is OutputState.READY:
            connection.send(SetupAppend(self._request_id, self._writer_id, self._name, self._token))

    def _leave_out(self, error: BaseException | None) -> None:
        """Go on behind a large event that was cancelled, or cannot be read any more; it is not stored."""
        block = self._window.take_first()
        self._owner.on_left_out(block.size_bytes)
        for ack in block.acks:
            ack.settle_part(error)
        if self.has_work:
            self._wake()

    def _detach(self) -> None:
        upload, self._upload = self._upload, None
        if upload is not None and upload is not asyncio.current_task():
            upload.cancel()
        super()._detach()
