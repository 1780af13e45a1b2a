"""Reads of one connection: answered from memory at once, or by a waiting task that blocks nothing else."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from headrace.errors import HeadraceError, ProtocolError, TokenExpiredError
from headrace.limits import KIB, READ_BYTES_MAX, READ_BYTES_MIN
from headrace.runtime.deadlines import Deadlines
from headrace.segmentstore.contract import ReadResult
from headrace.segmentstore.ingress.charges import READ_BYTES, Charges
from headrace.segmentstore.ingress.home import ConnectionHome, ServedConnection
from headrace.segmentstore.ingress.outbox import Outbox
from headrace.wire.commands import ReadSegment
from headrace.wire.read_reply import encode_segment_read_header, encode_segment_read_trailer

_logger = logging.getLogger(__name__)

TIGHT_READ_BYTES_MAX: Final = 64 * KIB
"""Bytes of an answer while charges are tight."""

_ENDED_PER_ITERATION: Final = 128
"""Reads of a closing connection that are ended in an iteration of the loop: each takes some 15 us, and there
may be 16,384.
"""


def read_length(suggested: int, bytes_max: int = READ_BYTES_MAX) -> int:
    """Return how many bytes an answer may have: as requested, within the bounds of a reply."""
    return min(suggested, bytes_max) if suggested > 0 else READ_BYTES_MIN


class ReadSession:
    """Waiting reads of one connection; hands answers to its outbox."""

    __slots__ = ("_charges", "_expiries", "_kind", "_on_error", "_outbox", "_spawn", "_store", "_waiting")

    def __init__(self, home: ConnectionHome, connection: ServedConnection, outbox: Outbox) -> None:
        self._store = home.store
        self._outbox = outbox
        self._spawn = home.supervisor.spawn
        self._on_error = connection.on_error
        self._waiting: dict[asyncio.Task[None], ReadSegment] = {}
        self._kind = home.waiting_reads
        self._charges = Charges(home.waiting_reads)
        self._expiries: Deadlines[asyncio.Task[None]] = Deadlines(self._on_expired)
        """Of the tokens of reads that wait."""

    @property
    def waiting(self) -> int:
        """Reads without an answer."""
        return len(self._waiting)

    def on_read(self, request: ReadSegment, left_ms: int | None = None) -> None:
        """Answer now if the bytes are in memory, else as soon as there is an answer.

        Args:
            request: its token was checked.
            left_ms: for how many milliseconds it may wait; None: for ever.

        Raises:
            ProtocolError: too many reads wait already.
            HeadraceError: the read was refused.
        """
        result = self._store.read_nowait(request.segment, request.offset, self._length(request))
        if result is not None:
            self._answer(request, result)
            return
        if self._charges.full:
            limit, total = self._kind.limit, self._kind.total
            raise ProtocolError(f"more than {limit} reads wait on one connection, {total} on all of them")
        # The token was checked. It may be 64 KiB large, and the read may wait for days.
        task = self._start(dataclasses.replace(request, delegation_token=""), wait=True)
        if left_ms is not None:
            self._expiries.set(task, left_ms)

    def _on_expired(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        self._refuse_expired(deque(tasks))

    def _refuse_expired(self, tasks: deque[asyncio.Task[None]]) -> None:
        """Refuse reads that wait at the tail, in several iterations of the loop; others are about to be
        answered.
        """
        for _ in range(min(len(tasks), _ENDED_PER_ITERATION)):
            task = tasks.popleft()
            request = self._waiting.get(task)
            if (
                request is None
                or task.done()
                or self._store.is_at_tail(request.segment, request.offset) is False
            ):
                continue
            del self._waiting[task]
            task.cancel()
            self._on_error(
                request, TokenExpiredError("the delegation token has expired while the read waited")
            )
        if tasks:
            asyncio.get_running_loop().call_soon(self._refuse_expired, tasks)

    def _start(self, request: ReadSegment, *, wait: bool) -> asyncio.Task[None]:
        task = self._spawn("read", self._wait(request, wait=wait))
        self._waiting[task] = request
        self._charges.add(READ_BYTES)
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._waiting.pop(task, None)
        self._expiries.discard(task)
        self._charges.remove(1, READ_BYTES)

    def _length(self, request: ReadSegment) -> int:
        bytes_max = TIGHT_READ_BYTES_MAX if self._outbox.tight else READ_BYTES_MAX
        return read_length(request.suggested_length, bytes_max)

    async def _wait(self, request: ReadSegment, *, wait: bool) -> None:
        try:
            result = await self._fetch(request, wait=wait)
            while wait or not _is_nothing(result):
                if not self._outbox.full:
                    self._answer(request, result)
                    return
                # The client takes its replies slowly: use no memory for it meanwhile.
                result.release()
                if await self._answer_when_sendable(request):
                    return
                result = await self._fetch(request, wait=wait)
        except HeadraceError as error:
            self._on_error(request, error)
        except Exception as error:  # a bug of ours: only this connection ends
            _logger.exception("a read of %s failed", request.segment)
            self._on_error(request, error)

    async def _answer_when_sendable(self, request: ReadSegment) -> bool:
        """Answer once the client has taken what it was sent; return False if there is nothing to answer.

        That is so if the segment was deleted and its name used again. Waiting for bytes here would block the
        send slot for all other reads of the connection.
        """
        await self._outbox.wait_send_slot()
        try:
            result = await self._fetch(request, wait=False)
            if _is_nothing(result):
                return False
            self._answer(request, result)
        finally:
            self._outbox.release_send_slot()
        return True

    async def _fetch(self, request: ReadSegment, *, wait: bool) -> ReadResult:
        """Return bytes within the bound that holds when they are returned, not when the wait began."""
        while True:
            length = self._length(request)
            result = await self._store.read(request.segment, request.offset, length, wait=wait)
            if result.length <= self._length(request):
                return result
            # The bound is smaller now. A part of the result would pin all of it in memory.
            result.release()

    def _answer(self, request: ReadSegment, result: ReadResult) -> None:
        """Send ``result``. The offset of an answer is that of its request."""
        head = encode_segment_read_header(
            request.segment, request.offset, result.at_tail, result.end_of_segment, result.length
        )
        self._outbox.send_read(head, result, encode_segment_read_trailer(request.request_id))

    def end(self, on_answered: Callable[[], None]) -> None:
        """The connection closes: end reads at the tail, still answer those whose bytes exist.

        ``on_answered`` is called after each of the latter; :attr:`waiting` counts only them and reads at the
        tail that are not ended yet.
        """
        tasks = deque(self._waiting)
        self._end_some(tasks, on_answered)
        if tasks:
            asyncio.get_running_loop().call_soon(self._end_next, tasks, on_answered)

    def _end_next(self, tasks: deque[asyncio.Task[None]], on_answered: Callable[[], None]) -> None:
        self._end_some(tasks, on_answered)
        if tasks:
            asyncio.get_running_loop().call_soon(self._end_next, tasks, on_answered)
        else:
            on_answered()  # cancelled reads counted until now

    def _end_some(self, tasks: deque[asyncio.Task[None]], on_answered: Callable[[], None]) -> None:
        """End and remove the first of ``tasks``."""

        def notify(_: asyncio.Task[None]) -> None:
            on_answered()

        for _ in range(min(len(tasks), _ENDED_PER_ITERATION)):
            task = tasks.popleft()
            request = self._waiting.get(task)
            if request is None:  # it was answered meanwhile, or the connection is lost
                continue
            at_tail = self._store.is_at_tail(request.segment, request.offset)
            if at_tail is False or task.done():  # it has answered; its callbacks are scheduled
                task.add_done_callback(notify)
                continue
            del self._waiting[task]
            task.cancel()
            if at_tail is None:  # its bytes may exist
                try:
                    self._start(request, wait=False).add_done_callback(notify)
                except HeadraceError as error:
                    self._on_error(request, error)

    def close(self) -> None:
        """The connection is lost: end all waiting reads."""
        tasks = deque(self._waiting)
        self._waiting.clear()
        self._expiries.close()
        self._cancel(tasks)

    def _cancel(self, tasks: deque[asyncio.Task[None]]) -> None:
        """Cancel ``tasks``, in several iterations of the loop. Their answers are dropped meanwhile."""
        for _ in range(min(len(tasks), _ENDED_PER_ITERATION)):
            tasks.popleft().cancel()
        if tasks:
            asyncio.get_running_loop().call_soon(self._cancel, tasks)


def _is_nothing(result: ReadResult) -> bool:
    """Whether there is nothing to read yet."""
    return result.at_tail and not result.length
