"""Answers one connection's questions about tables, whose replies may be as large as a wire frame.

A small reply needs nothing but a client that takes its replies. A larger one needs a lease, before it is put
together and until its last byte has left: thousands of clients that each ask for one and do not take it would
fill a machine. One question of a connection has such a lease, or waits for it, at a time. The pages of an
iteration are small while the budget is consumed, and wait only for an entry that is not small itself.

::

    after those before it -> client takes replies -> lease -> store -> sent -> taken by the client
                                                       ^         |              the lease ends
                                                       +---------+
                                            it takes more: so much is needed
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
"""More than a reply has besides its keys or entries: its head, the segment's name, a token with a key."""

_AT_ONCE_BYTES: Final = 256 * KIB
_PAGE_BYTES: Final = 2 * MIB
"""Pages that clients get are no larger, nor are those of the store unless it is told so."""


class TableReplies:
    """Replies to questions about tables."""

    def __init__(self, home: ConnectionHome, connection: ServedConnection, outbox: Outbox) -> None:
        self._loop = asyncio.get_running_loop()
        self._budget = home.budget
        self._small_bytes_max = home.config.small_reply_bytes_max
        self._connection = connection
        self._outbox = outbox
        self._turn = asyncio.Lock()
        """Of the one question of this connection whose reply may have a lease."""
        self._granted: asyncio.Future[None] | None = None
        """What that one waits for while its lease does."""

    async def answer(self, handler: Handler, question: Request, lease: Lease) -> None:
        """Send the reply to ``question``, which has ``lease``. Raises what ``handler`` does."""
        needed = 0
        if self._turn.locked():
            if not self._outbox.full:
                needed = await self._try(handler, question, None, in_turn=False)
                if not needed:
                    return
            self._budget.set_aside(lease)
        async with self._turn:
            while True:
                reply = await self._get_lease(question, lease, needed)
                if self._outbox.is_closed:
                    return
                try:
                    needed = await self._try(handler, question, reply, in_turn=True)
                finally:
                    if reply is not None and reply.since is None:  # it did not leave with the reply
                        self._budget.end(reply)
                if not needed:
                    return

    async def _get_lease(self, question: Request, lease: Lease, needed: int) -> Lease | None:
        """Return a lease of ``needed`` bytes; if those are few, of a page, or None where that would wait.

        None as well if the connection is lost meanwhile.
        """
        outbox, budget = self._outbox, self._budget
        may_be_small = needed <= self._small_bytes_max
        if may_be_small:
            needed = _AT_ONCE_BYTES if isinstance(question, c.ReadTable) else _PAGE_BYTES
        if outbox.full:
            budget.set_aside(lease)
            lease.since = self._loop.time()
            await outbox.wait_turn()
            outbox.end_turn()  # the lease is for this reply, however much else is sent meanwhile
            lease.since = None
        reply = None
        if not outbox.is_closed:
            reply = budget.begin_at_once(Lane.REPLIES, self._connection, needed)
            if reply is None and not may_be_small:
                budget.set_aside(lease)
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

    async def _try(self, handler: Handler, question: Request, reply: Lease | None, *, in_turn: bool) -> int:
        """Send what fits the lease ``reply`` or is small. Return 0, or else how many bytes it would need."""
        outbox = self._outbox
        bytes_max = self._small_bytes_max if reply is None else max(reply.size, self._small_bytes_max)
        try:
            frame = encode(await handler(question, max(0, bytes_max - AROUND_BYTES)))
        except AnswerTooLargeError as error:
            if error.size_bytes > SERVER_PAYLOAD_BYTES_MAX:  # it fits no frame
                raise AnswerTooLargeError(error.size_bytes, SERVER_PAYLOAD_BYTES_MAX) from None
            return error.size_bytes + AROUND_BYTES
        size = len(frame)
        if size > bytes_max or (not in_turn and outbox.full):
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
