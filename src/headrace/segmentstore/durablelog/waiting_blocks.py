"""Connections that found no room for a block, and when it is their turn.

Requests wait in lines (:mod:`.request_queue`), blocks in the sockets of their connections. When room comes
while both wait, they go first by turns: neither keeps the other out. In a turn of the blocks each connection
that waits is asked once, on the loop, and takes what it finds; who found nothing is asked first next time.
Once nothing is left the others are not asked: each would look at all that its buffer holds, for every frame.

Source: ``docs/flows/append.md``, "Turns".
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from headrace.segmentstore.durablelog.processor_statistics import ProcessorStatistics

Resume = Callable[[], None]


class WaitingBlocks:
    """Who waits, and the round in which they are asked. ``on_round_over`` hears of its end.

    ``has_room`` says whether anybody might find more than a rest of the open frame.
    """

    __slots__ = (
        "_asked",
        "_called",
        "_first",
        "_has_room",
        "_loop",
        "_on_round_over",
        "_others",
        "_refused",
        "_stats",
        "_taken",
        "are_first",
        "have_turn",
        "in_round",
        "room_came",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        stats: ProcessorStatistics,
        on_round_over: Callable[[], None],
        has_room: Callable[[], bool],
    ) -> None:
        self._loop = loop
        self._stats = stats
        self._has_room = has_room
        self._on_round_over = on_round_over
        self._first: dict[Resume, None] = {}
        """Those who were asked and took nothing."""
        self._others: dict[Resume, None] = {}
        self._called: dict[Resume, None] = {}
        """Those who are going to be asked."""
        self._refused = False
        """Whether somebody was asked in this round when there was no frame, and found no room."""
        self._asked: Resume | None = None
        """Who is being asked."""
        self._taken = 0
        """How many blocks had been taken by then, of anybody."""
        self.in_round = False
        """Whether some that were called have not asked yet."""
        self.have_turn = False
        """Whether, in this round, blocks pass the requests that wait."""
        self.room_came = False
        """Whether there is more room than when this round began."""
        self.are_first = False
        """Whether the next turn is theirs: requests had the last one."""

    @property
    def count(self) -> int:
        return len(self._first) + len(self._others)

    def add(self, resume: Resume) -> None:
        """``resume`` is to be called, once, when there is room."""
        if resume == self._asked and not self._has_room():  # else it waits for something of its own
            self._refused = True
        if resume == self._asked and self._stats.blocks == self._taken:
            self._first[resume] = None
        elif resume not in self._first:
            self._others[resume] = None

    def remove(self, resume: Resume) -> None:
        self._first.pop(resume, None)
        self._others.pop(resume, None)
        self._called.pop(resume, None)

    def begin_round(self, *, have_turn: bool) -> None:
        """Ask everybody. Not within a round."""
        assert not self.in_round
        self.in_round = True
        self.have_turn = have_turn
        self._refused = False
        self.call()
        self._loop.call_soon(self._end_round)

    def call(self) -> None:
        """Call everybody, later on the loop."""
        waiting = (*self._first, *self._others)
        self._first.clear()
        self._others.clear()
        for resume in waiting:
            self._called[resume] = None
            self._loop.call_soon(self._call, resume)

    def _call(self, resume: Resume) -> None:
        if resume not in self._called:
            return
        del self._called[resume]
        if self._refused and not self._has_room():
            self._first[resume] = None
            return
        self._asked, self._taken = resume, self._stats.blocks
        try:
            resume()
        finally:
            self._asked = None

    def _end_round(self) -> None:
        self.in_round = self.have_turn = False
        self._on_round_over()
