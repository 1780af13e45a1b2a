"""Answers one connection's questions about tables, whose replies may be as large as a wire frame.

A small reply waits only for its client to take the replies before it. A larger one needs a lease, from before
it is put together until its last byte is sent: thousands of clients that each request one and do not take it
would fill the memory. One question of a connection has such a lease, or waits for it, at a time. The pages of
a listing are small while the budget is consumed, and wait only for an entry that is not small itself.

::

    after those before it -> client takes replies -> lease -> store -> sent -> taken by the client
                                                       ^         |              the lease ends
                                                       +---------+
                                            it needs more: so much
"""

from __future__ import annotations

import asyncio
from typing import Final

from headrace.errors import AnswerTooLargeError
from headrace.limits import KIB, MIB, TABLE_KEY_BYTES_MAX
from headrace.segmentstore.ingress.budget import Lane, Lease
from headrace.segmentstore.ingress.home import ConnectionHome, ServedConnection
from headrace.segmentstore.ingress.outbox import Outbox
from headrace.segmentstore.ingress.segment_session import Handler
from headrace.wire import commands as c
from headrace.wire.commands.kinds import Request
from headrace.wire.frames import SERVER_PAYLOAD_BYTES_MAX, encode

AROUND_BYTES: Final = TABLE_KEY_BYTES_MAX + 2 * KIB
"""Bound of what a reply has besides its keys or entries: its head, the segment's name, a token with a key."""

_AT_ONCE_BYTES: Final = 256 * KIB
"""Leased for a read of few keys: memory, not time."""
_PAGE_BYTES: Final = 2 * MIB
"""Bound of a page that a client gets, and default bound of the store."""


class TableReplies:
    """Replies to questions about tables."""

    def __init__(self, home: ConnectionHome, connection: ServedConnection, outbox: Outbox) -> None:
        self._loop = asyncio.get_running_loop()
        self._budget = home.budget
        self._small_bytes_max = home.config.small_reply_bytes_max
        self._connection = connection
        self._outbox = outbox
        self._lease_lock = asyncio.Lock()
        """Locked by the one question of this connection whose reply may have a lease."""
        self._granted: asyncio.Future[None] | None = None
        """Resolved when the waiting lease of that question is granted."""

    @property
    def may_answer_nowait(self) -> bool:
        """Whether no reply is in front of one of up to ``small_reply_bytes_max``."""
        return not (self._lease_lock.locked() or self._outbox.full)

    async def answer(self, handler: Handler, question: Request, lease: Lease) -> None:
        """Send the reply to ``question``, which has ``lease``. Raises what ``handler`` does."""
        needed = 0
        if self._lease_lock.locked():
            if not self._outbox.full:
                needed = await self._try(handler, question, None, owns_lock=False)
                if not needed:
                    return
            self._budget.convert_to_charge(lease)
        async with self._lease_lock:
            while True:
                reply = await self._get_lease(question, lease, needed)
                if self._outbox.is_closed:
                    return
                try:
                    needed = await self._try(handler, question, reply, owns_lock=True)
                finally:
                    if reply is not None and reply.since is None:  # the reply was not sent with it
                        self._budget.end(reply)
                if not needed:
                    return

    async def _get_lease(self, question: Request, lease: Lease, needed: int) -> Lease | None:
        """Return a lease of ``needed`` bytes; if those are few, of a page, or None if that would wait.

        None also if the connection is lost meanwhile.
        """
        outbox, budget = self._outbox, self._budget
        may_be_small = needed <= self._small_bytes_max
        if may_be_small:
            needed = _AT_ONCE_BYTES if isinstance(question, c.ReadTable) else _PAGE_BYTES
        if outbox.full:
            budget.convert_to_charge(lease)
            lease.since = self._loop.time()
            await outbox.wait_send_slot()
            outbox.release_send_slot()  # the lease bounds this reply, however much else is sent meanwhile
            lease.since = None
        reply = None
        if not outbox.is_closed:
            reply = budget.begin_nowait(Lane.REPLIES, self._connection, needed)
            if reply is None and not may_be_small:
                budget.convert_to_charge(lease)
                reply = await self._wait_for(needed)
        return reply

    async def _wait_for(self, size_bytes: int) -> Lease | None:
        reply = self._budget.begin(Lane.REPLIES, self._connection, size_bytes, self._wake)
        if reply.waits:
            self._granted = self._loop.create_future()
            try:
                await self._granted
            except asyncio.CancelledError:
                self._budget.end(reply)
                raise
            finally:
                self._granted = None
        if self._outbox.is_closed:
            self._budget.end(reply)
            return None
        return reply

    def _wake(self) -> None:
        if self._granted is not None and not self._granted.done():
            self._granted.set_result(None)

    async def _try(self, handler: Handler, question: Request, reply: Lease | None, *, owns_lock: bool) -> int:
        """Send the reply if it fits the lease ``reply`` or is small. Return 0, or the bytes that it needs."""
        outbox = self._outbox
        bytes_max = self._small_bytes_max if reply is None else max(reply.size, self._small_bytes_max)
        try:
            frame = encode(await handler(question, max(0, bytes_max - AROUND_BYTES)))
        except AnswerTooLargeError as error:
            if error.size_bytes > SERVER_PAYLOAD_BYTES_MAX:  # it fits no frame
                raise AnswerTooLargeError(error.size_bytes, SERVER_PAYLOAD_BYTES_MAX) from None
            return error.size_bytes + AROUND_BYTES
        size = len(frame)
        if size > bytes_max or (not owns_lock and outbox.full):
            return size
        if size <= self._small_bytes_max:
            outbox.send_reply(frame)
        else:
            assert reply is not None
            self._budget.shrink(reply, size)
            reply.since = self._loop.time()
            outbox.send_large(frame, reply)
        return 0

    def close(self) -> None:
        """The connection is lost, and its outbox closed."""
        self._wake()
