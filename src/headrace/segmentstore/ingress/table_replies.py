"""Answers one connection's questions about tables, whose replies may be as large as a frame.

A small reply needs nothing but a client that takes its replies. A larger one needs room in a memory that all
connections share, before it is put together and until its last byte has left: thousands of clients that each
ask for one and do not take it would fill a machine. One question of a connection has room, or waits for some,
at a time. The pages of an iteration are small while there is no room at once, and wait only for an entry that
is not small itself.

::

    turn of this connection -> client takes replies -> room -> store -> sent -> taken by the client
                                                        ^        |               the room is given back
                                                        +--------+
                                             it takes more: so much is needed

Whoever has room, and takes nothing for a while or not all of it for long, is closed if others wait.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from headrace.errors import AnswerTooLargeError
from headrace.limits import KIB, MIB, TABLE_KEY_BYTES_MAX
from headrace.segmentstore.ingress.admission import Stay
from headrace.segmentstore.ingress.home import ConnectionHome
from headrace.segmentstore.ingress.outbox import Outbox
from headrace.segmentstore.ingress.reply_room import ReplyRoom
from headrace.segmentstore.ingress.segment_session import Handler
from headrace.wire import commands as c
from headrace.wire.commands.kinds import Request
from headrace.wire.frames import SERVER_PAYLOAD_BYTES_MAX, encode

AROUND_BYTES: Final = TABLE_KEY_BYTES_MAX + 2 * KIB
"""More than a reply has besides its keys or entries: its head, the segment's name, a token with a key."""

_AT_ONCE_BYTES: Final = 256 * KIB
_PAGE_BYTES: Final = 2 * MIB
"""Pages that clients get are no larger, nor are those of the store unless it is told so."""


class RepliesConnection(Protocol):
    """What table replies need of their connection."""

    def close_after_replies(self, reason: str) -> None:
        """Take nothing more, send what is owed, close."""

    def on_reply_overdue(self) -> None:
        """Others wait for the room of a reply that this client does not take."""


class TableReplies:
    """Replies to questions about tables, and how far the client has taken them."""

    __slots__ = (
        "_config",
        "_connection",
        "_line",
        "_loop",
        "_memory",
        "_outbox",
        "_room_waited_for",
        "_sent_bytes",
        "_small_bytes_max",
        "_timer",
        "_turn",
    )

    def __init__(self, home: ConnectionHome, connection: RepliesConnection, outbox: Outbox) -> None:
        self._loop = asyncio.get_running_loop()
        self._config = home.config
        self._memory = home.reply_memory
        self._small_bytes_max = home.config.small_reply_bytes_max
        self._connection = connection
        self._outbox = outbox
        self._turn = asyncio.Lock()
        """Of the one question of this connection that may have room."""
        self._line: dict[Stay, None] = {}
        """Who has the turn, or waits for it."""
        self._room_waited_for: ReplyRoom | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._sent_bytes = 0
        """What had left when the timer was set."""

    async def answer(self, handler: Handler, question: Request, stay: Stay) -> None:
        """Send the reply to ``question``. Raises what ``handler`` does."""
        room = ReplyRoom(self._memory)
        needed = 0
        if self._line and not self._outbox.full:
            needed = await self._try(handler, question, room, in_turn=False)
            if not needed:
                return
        has_to_wait = bool(self._line)
        self._line[stay] = None
        try:
            if has_to_wait and not self._let_others(stay):
                return
            async with self._turn:
                while await self._get_room(room, question, stay, needed):
                    needed = await self._try(handler, question, room, in_turn=True)
                    if not needed:
                        return
                    room.give_back()
        finally:
            del self._line[stay]
            room.give_back()

    def _let_others(self, stay: Stay) -> bool:
        """Let others have the room of a question whose reply waits, or keep it if too many do so.

        If it waits for the client, that holds for all questions of the connection, and none may keep its
        room: the connection is closed then, and this is False.
        """
        if not self._outbox.full:
            stay.step_aside()
            return True
        if all(each.step_aside() for each in list(self._line)):
            return True
        self._connection.close_after_replies("too many bytes of requests wait for slow clients")
        return False

    async def _get_room(self, room: ReplyRoom, question: Request, stay: Stay, needed: int) -> bool:
        """Get ``needed`` bytes of room, or what is there at once if those are few; say whether to go on.

        What has to wait holds nothing meanwhile.
        """
        outbox = self._outbox
        if needed > self._small_bytes_max:
            size_bytes, is_small = needed, False
        else:
            size_bytes, is_small = _AT_ONCE_BYTES if isinstance(question, c.ReadTable) else _PAGE_BYTES, True
        if outbox.full or not (room.take_at_once(size_bytes) or is_small):
            if not self._let_others(stay):
                return False
            await outbox.wait_turn()
            outbox.end_turn()  # the room is for this reply, however much else is sent meanwhile
            if not (outbox.is_closed or room.take_at_once(size_bytes) or is_small):
                await self._wait_for(room, size_bytes)
        if outbox.is_closed:
            return False
        stay.come_back()
        return True

    async def _wait_for(self, room: ReplyRoom, size_bytes: int) -> None:
        self._room_waited_for = room
        try:
            await room.take(size_bytes)
        finally:
            self._room_waited_for = None

    async def _try(self, handler: Handler, question: Request, room: ReplyRoom, *, in_turn: bool) -> int:
        """Answer if the reply fits ``room`` or is small. Return 0, or else how much room it would need."""
        outbox = self._outbox
        bytes_max = max(room.size_bytes, self._small_bytes_max)
        try:
            frame = encode(await handler(question, max(0, bytes_max - AROUND_BYTES)))
        except AnswerTooLargeError as error:
            if error.size_bytes > SERVER_PAYLOAD_BYTES_MAX:  # in no frame, whatever room there is
                raise AnswerTooLargeError(error.size_bytes, SERVER_PAYLOAD_BYTES_MAX) from None
            return error.size_bytes + AROUND_BYTES
        size = len(frame)
        if size > bytes_max or (not in_turn and outbox.full):
            return size
        if size <= self._small_bytes_max:
            outbox.send_reply(frame)
        else:
            outbox.send_large(frame, room.hand_over(size))
            self._watch()
        return 0

    # ---------------------------------------------------------------------------------- taken or not

    def _watch(self) -> None:
        """Look again, after a while, whether the client takes what it has room for."""
        if self._timer is None and self._outbox.large_since is not None:
            self._sent_bytes = self._outbox.count_sent()
            self._timer = self._loop.call_later(self._config.reply_stall_s, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        sent_bytes, since = self._outbox.count_sent(), self._outbox.large_since
        if since is None:
            return
        stalls = sent_bytes == self._sent_bytes
        is_late = self._loop.time() - since >= self._config.reply_patience_s
        others_wait = self._memory.waiting > (self._room_waited_for is not None)
        if others_wait and (stalls or is_late):
            self._connection.on_reply_overdue()
        else:
            self._watch()

    def close(self) -> None:
        """The connection is lost, and its outbox closed."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._room_waited_for is not None:
            self._room_waited_for.give_up()
