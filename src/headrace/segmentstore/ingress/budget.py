"""The budget of bytes of all connections together, and the order in which it is granted.

What can wait consumes the budget by a *lease* in the lane of its kind, before it takes memory. Leases of one
lane wait only for each other. What cannot wait, because the memory is taken, is *charged*::

    FRAMES            an eighth    wire frames with appends that do not fit the buffer of their connection
    REQUESTS          an eighth    large requests, from the beginning of their wire frame to their end
    SMALL_REQUESTS    an eighth    the others
    REPLIES           an eighth    large replies about tables, until their last byte has left
    unsent            an eighth    charges for replies that clients have not taken
    objects           an eighth    charges for waiting reads and refusals, and for writers
    shared            a quarter    for the lane, or the charges, that needs it first

So neither clients of one lane nor a stalled container block another lane, and clients that take no replies
cost others neither reads nor writers. A lease whose lane is empty is
always granted. A lease that grows waits in front of those that have nothing; when all leases of a lane wait
to grow, the first of them is granted beyond the bound, since it needs nothing further to end. Thus one lease
of a lane at most is beyond it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Final, Protocol

from headrace.limits import KIB

SMALL_BYTES_MAX: Final = 64 * KIB
"""A request up to this size is a small one."""

CHECKS_PER_STALL: Final = 24
"""Checks for stalled clients in ``stall_s`` while leases wait."""

_IDLE_PARTS: Final = 6
"""A client has stalled also if it moves no byte for ``stall_s`` divided by this."""

_PARTS: Final = 8


class Lane(IntEnum):
    """What a lease is for."""

    FRAMES = 0
    REQUESTS = 1
    SMALL_REQUESTS = 2
    REPLIES = 3


class LeaseOwner(Protocol):
    """The connection that a lease belongs to."""

    def moved_bytes(self, lease: Lease) -> int:
        """Return how many bytes were received, or sent: whichever ends the lease."""

    def on_overdue(self, lease: Lease, age_s: float) -> None:
        """Other leases wait, and for ``age_s`` the client could have ended this one."""


class Lease:
    """Bytes of the budget that a connection has consumed, or waits for."""

    __slots__ = ("moved_at", "moved_bytes", "on_granted", "owner", "part", "since", "size", "wanted")

    def __init__(self, part: _Part, owner: LeaseOwner, on_granted: Callable[[], None]) -> None:
        self.part = part
        self.owner = owner
        self.on_granted = on_granted
        """Called once after each wait. It must not call the budget at once."""
        self.size = 0
        self.wanted = 0
        """The size that it waits for; else 0."""
        self.since: float | None = None
        """Since when the client could end it; None while the server has to act."""
        self.moved_at = 0.0
        self.moved_bytes = -1
        """``moved_bytes`` of the owner when it last grew, at ``moved_at``."""

    @property
    def waits(self) -> bool:
        return self.wanted > 0


class _Part:
    """One lane, or one kind of charges."""

    __slots__ = ("growing", "leases", "reserve", "used", "waiting")

    def __init__(self, reserve: int) -> None:
        self.reserve = reserve
        self.used = 0
        self.leases: dict[Lease, None] = {}
        self.growing: dict[Lease, None] = {}
        """Those of them that wait to grow, first come, first served."""
        self.waiting: dict[Lease, None] = {}
        """Those that have nothing, in the same order."""

    @property
    def excess(self) -> int:
        """Bytes that it consumes of the shared part."""
        return max(0, self.used - self.reserve)


class ByteBudget:
    """``bytes_max`` bytes. Whenever a lease begins to wait, ``on_waiting`` is called."""

    def __init__(self, bytes_max: int, on_waiting: Callable[[], None] = lambda: None) -> None:
        eighth = bytes_max // _PARTS
        self._lanes: Final = tuple(_Part(eighth) for _ in Lane)
        self._unsent: Final = _Part(eighth)
        self._objects: Final = _Part(eighth)
        self._shared_max = bytes_max - (len(Lane) + 2) * eighth
        self._shared = 0
        self._idle: dict[Lease, Callable[[], None]] = {}
        self._on_waiting = on_waiting
        self.waiting = 0
        self.waits = 0
        """How often a lease had to wait."""

    # -------------------------------------------------------------------------------------- leases

    def begin(self, lane: Lane, owner: LeaseOwner, size: int, on_granted: Callable[[], None]) -> Lease:
        """Return a lease, which may have to wait: then ``on_granted`` is called later."""
        part, size = self._lanes[lane], max(1, size)  # a lease of nothing could neither wait nor be dropped
        lease = Lease(part, owner, on_granted)
        if part.growing or part.waiting or not self._make_free(part, size):
            self._wait(lease, size, part.waiting)
        else:
            self._grant(lease, size)
        return lease

    def begin_nowait(self, lane: Lane, owner: LeaseOwner, size: int) -> Lease | None:
        """Return a lease, or None if it would have to wait."""
        part = self._lanes[lane]
        if part.growing or part.waiting or not self._make_free(part, size):
            return None
        lease = Lease(part, owner, lambda: None)
        self._grant(lease, size)
        return lease

    def grow(self, lease: Lease, size: int) -> bool:
        """Grow ``lease`` to ``size``; return False if it waits: then its ``on_granted`` is called later."""
        part = lease.part
        if size <= lease.size or (not part.growing and self._make_free(part, size - lease.size, lease)):
            self._grant(lease, max(size, lease.size))
            return True
        self._wait(lease, size, part.growing)
        self.serve()  # it may have been the last one that could end without growing
        return False

    def shrink(self, lease: Lease, size: int) -> None:
        """Release what ``lease`` has beyond ``size``."""
        if size < lease.size:
            self._grant(lease, size)
            self.serve()

    def end(self, lease: Lease) -> None:
        """Release ``lease``, or what it waits for. Idempotent."""
        if lease.wanted:
            self._stop_waiting(lease)
        if lease in lease.part.leases:
            self._idle.pop(lease, None)
            self._drop(lease)
        self.serve()

    def set_idle(self, lease: Lease, on_ended: Callable[[], None]) -> None:
        """Retain ``lease``, which is not used now, until other leases need its bytes.

        Then it is ended, and ``on_ended`` called, which must not call the budget.
        """
        lease.since = None
        self._idle[lease] = on_ended
        self.serve()

    def resume(self, lease: Lease, size: int) -> bool:
        """Use an idle lease again if it has ``size``; return whether it has."""
        if size > lease.size:
            return False
        del self._idle[lease]
        return True

    def convert_to_charge(self, lease: Lease) -> None:
        """Make a charge of ``lease``, whose owner waits for something else, if charges have that much free.

        Its lane is free for other leases then. It may be used at any time, and ends as any other lease.
        """
        size = lease.size
        self._drop(lease)
        if self._fits(self._unsent, size):
            lease.part = self._unsent
        self._grant(lease, size)
        self.serve()

    def serve(self) -> None:
        """Grant waiting leases, lane by lane in order, as far as bytes are free."""
        if not self.waiting:
            return
        for part in self._lanes:
            while queue := part.growing or part.waiting:
                lease = next(iter(queue))
                if not self._make_free(part, lease.wanted - lease.size, lease):
                    break
                size = lease.wanted
                self._stop_waiting(lease)
                self._grant(lease, size)
                lease.on_granted()

    def _make_free(self, part: _Part, more: int, lease: Lease | None = None) -> bool:
        """Return whether ``lease``, or a new one, may have ``more`` bytes; idle leases are ended for it."""
        while not self._fits(part, more):
            if not self._idle:
                own = lease in part.leases and lease not in part.growing
                return len(part.leases) == len(part.growing) + own  # no other lease would end without growing
            self._end_idle()
        return True

    def _end_idle(self) -> None:
        lease, on_ended = next(iter(self._idle.items()))
        del self._idle[lease]
        self._drop(lease)
        on_ended()

    def _fits(self, part: _Part, more: int) -> bool:
        after = part.used + more - part.reserve
        return after <= 0 or self._shared - part.excess + after <= self._shared_max

    def _count(self, part: _Part, change: int) -> None:
        before = part.used - part.reserve
        after = before + change
        part.used += change
        if before > 0 or after > 0:
            self._shared += max(0, after) - max(0, before)

    def _grant(self, lease: Lease, size: int) -> None:
        self._count(lease.part, size - lease.size)
        lease.size = size
        lease.part.leases[lease] = None

    def _drop(self, lease: Lease) -> None:
        del lease.part.leases[lease]
        self._count(lease.part, -lease.size)
        lease.size = 0

    def _wait(self, lease: Lease, size: int, queue: dict[Lease, None]) -> None:
        lease.wanted = size
        queue[lease] = None
        self.waits += 1
        self.waiting += 1
        self._on_waiting()

    def _stop_waiting(self, lease: Lease) -> None:
        lease.part.growing.pop(lease, None)
        lease.part.waiting.pop(lease, None)
        lease.wanted = 0
        self.waiting -= 1

    # -------------------------------------------------------------------------------------- charges

    def charge_unsent(self, size: int) -> None:
        """Count ``size`` bytes of replies more, or less if negative, without waiting."""
        self._charge(self._unsent, size)

    def charge_objects(self, size: int) -> None:
        """Count ``size`` bytes of small objects more, or less if negative, without waiting."""
        self._charge(self._objects, size)

    def _charge(self, part: _Part, size: int) -> None:
        self._count(part, size)
        if size < 0:
            self.serve()
        while self._idle and self._is_tight(part):
            self._end_idle()

    def _is_tight(self, part: _Part) -> bool:
        return part.used > part.reserve and self._shared > self._shared_max

    @property
    def unsent_tight(self) -> bool:
        """Whether more replies are unsent than the budget has for them."""
        return self._is_tight(self._unsent)

    @property
    def objects_tight(self) -> bool:
        """Whether more objects are charged than the budget has for them."""
        return self._is_tight(self._objects)

    # -------------------------------------------------------------------------------------- stalls

    def overdue(self, now: float, stall_s: float) -> Iterator[tuple[Lease, float]]:
        """Yield stalled leases that other connections wait for, and how long clients could have ended them.

        To be called :data:`CHECKS_PER_STALL` times in ``stall_s`` while leases wait.
        """
        waiting = [lease for part in self._lanes for queue in (part.growing, part.waiting) for lease in queue]
        for part in (*self._lanes, self._unsent):
            for lease in list(part.leases if part.growing or part.waiting or part.excess else ()):
                if lease.since is None or lease.wanted:
                    continue
                moved_bytes, age_s = lease.owner.moved_bytes(lease), now - lease.since
                if moved_bytes != lease.moved_bytes:
                    lease.moved_bytes, lease.moved_at = moved_bytes, now
                idle_s = min(now - lease.moved_at, age_s)
                if (age_s >= stall_s or idle_s >= stall_s / _IDLE_PARTS) and any(
                    other.owner is not lease.owner for other in waiting
                ):
                    yield lease, age_s

    def used(self, *lanes: Lane) -> int:
        """Return how many bytes the leases of these lanes consume."""
        return sum(self._lanes[lane].used for lane in lanes)

    @property
    def unsent_bytes(self) -> int:
        return self._unsent.used

    @property
    def objects_bytes(self) -> int:
        return self._objects.used

    def check(self) -> None:
        """Assert that bytes are counted right, and that no lease waits without a reason."""
        for part in self._lanes:
            queue = part.growing or part.waiting
            assert part.used == sum(lease.size for lease in part.leases)
            assert part.growing.keys() <= part.leases.keys()
            assert not queue or len(part.growing) < len(part.leases), "no lease could ever end"
            assert not queue or not self._idle
            assert not queue or not self._fits(part, (lease := next(iter(queue))).wanted - lease.size)
        assert self.waiting == sum(len(part.growing) + len(part.waiting) for part in self._lanes)
        assert self._unsent.used >= sum(lease.size for lease in self._unsent.leases)
        assert self._shared == sum(part.excess for part in (*self._lanes, self._unsent, self._objects))
