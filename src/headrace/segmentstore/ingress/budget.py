"""How many bytes of the process all connections together may hold, and which of them gets the next ones.

What can wait consumes the budget by a *lease* in the lane of its kind, before it takes memory. Leases of one
lane queue for each other, and for no other lane. What cannot wait, because it has happened, is *charged*::

    FRAMES            an eighth    wire frames with appends that do not fit the buffer of their connection
    REQUESTS          an eighth    large requests, from the beginning of their wire frame to their end
    SMALL_REQUESTS    an eighth    the others
    REPLIES           an eighth    large replies about tables, until their last byte has left
    charges           a quarter    replies that clients have not taken; waiting reads and refusals; writers
    shared            a quarter    for the lane, or the charges, that needs it first

So nothing that clients do in one lane keeps another from going on, and no stalled container does. A lease
that finds its lane empty is always granted. A lease that needs more waits in front of those that have none;
when all leases of a lane wait for more, the first of them goes on beyond the bound: it needs nothing further
to end. Thus one lease of a lane at most is beyond it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Final, Protocol

from headrace.limits import KIB

SMALL_BYTES_MAX: Final = 64 * KIB
"""A request up to this size is a small one."""

LOOKS: Final = 24
"""So often in ``stall_s`` leases are looked at while others wait."""

_SILENCES: Final = 6
"""A client has stalled as well if nothing moves for one of so many parts of ``stall_s``. Whatever moves, that
is all that it has: a byte now and then does not help.
"""

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
        """Return how many bytes have come, or gone, in the direction in which the client ends the lease."""

    def on_overdue(self, lease: Lease, age_s: float) -> None:
        """Others wait, and for ``age_s`` the client has not done what would end the lease."""


class Lease:
    """Bytes that a connection may hold, or waits for."""

    __slots__ = ("moved_at", "moved_bytes", "on_granted", "owner", "part", "since", "size", "wanted")

    def __init__(self, part: _Part, owner: LeaseOwner, on_granted: Callable[[], None]) -> None:
        self.part = part
        self.owner = owner
        self.on_granted = on_granted
        """Called once whenever it has waited. It may not come back to the budget at once."""
        self.size = 0
        self.wanted = 0
        """The size it is going to have once it need not wait any more; else 0."""
        self.since: float | None = None
        """Since when the client could end it; None as long as it is the server's part to go on."""
        self.moved_at = 0.0
        self.moved_bytes = -1
        """What had moved when it was last seen to be more, at ``moved_at``."""

    @property
    def waits(self) -> bool:
        return self.wanted > 0


class _Part:
    """One lane, or the charges."""

    __slots__ = ("growing", "leases", "reserve", "used", "waiting")

    def __init__(self, reserve: int) -> None:
        self.reserve = reserve
        self.used = 0
        self.leases: dict[Lease, None] = {}
        self.growing: dict[Lease, None] = {}
        """Those of them that wait for more, first come, first served."""
        self.waiting: dict[Lease, None] = {}
        """Those that have nothing, in the same order."""

    @property
    def excess(self) -> int:
        """What it has of the shared part."""
        return max(0, self.used - self.reserve)


class ByteBudget:
    """``bytes_max`` bytes. Whenever a lease begins to wait, ``on_waiting`` is called."""

    def __init__(self, bytes_max: int, on_waiting: Callable[[], None] = lambda: None) -> None:
        eighth = bytes_max // _PARTS
        self._lanes: Final = tuple(_Part(eighth) for _ in Lane)
        self._charges: Final = _Part(2 * eighth)
        self._shared_max = bytes_max - (len(Lane) + 2) * eighth
        self._shared = 0
        self._resting: dict[Lease, Callable[[], None]] = {}
        self._on_waiting = on_waiting
        self.waiting = 0
        self.waits = 0
        """How often a lease had to wait."""

    # -------------------------------------------------------------------------------------- leases

    def begin(self, lane: Lane, owner: LeaseOwner, size: int, on_granted: Callable[[], None]) -> Lease:
        """Return a lease, which may have to wait: ``on_granted`` is called later then."""
        part = self._lanes[lane]
        lease = Lease(part, owner, on_granted)
        if part.growing or part.waiting or not self._make_free(part, size):
            self._wait(lease, size, part.waiting)
        else:
            self._grant(lease, size)
        return lease

    def begin_at_once(self, lane: Lane, owner: LeaseOwner, size: int) -> Lease | None:
        """Return a lease, or None if it would have to wait."""
        part = self._lanes[lane]
        if part.growing or part.waiting or not self._make_free(part, size):
            return None
        lease = Lease(part, owner, lambda: None)
        self._grant(lease, size)
        return lease

    def grow(self, lease: Lease, size: int) -> bool:
        """Let ``lease`` have ``size`` in all, and say so; if it is later, its ``on_granted`` is called."""
        part = lease.part
        if size <= lease.size or (not part.growing and self._make_free(part, size - lease.size, lease)):
            self._grant(lease, max(size, lease.size))
            return True
        self._wait(lease, size, part.growing)
        self.serve()  # it may have been the last one that could end without more
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
        if lease.size:
            self._resting.pop(lease, None)
            self._drop(lease)
        self.serve()

    def rest(self, lease: Lease, on_wanted: Callable[[], None]) -> None:
        """Keep ``lease``, which nothing needs now, until other leases need its bytes.

        It is ended then, and ``on_wanted`` called, which may not come back to the budget.
        """
        lease.since = None
        self._resting[lease] = on_wanted
        self.serve()

    def resume(self, lease: Lease, size: int) -> bool:
        """Use a resting lease again, and say so, if it has ``size``."""
        if size > lease.size:
            return False
        del self._resting[lease]
        return True

    def set_aside(self, lease: Lease) -> None:
        """Make a charge of ``lease``, which waits for others to go on, if the budget has that much free.

        Its lane is free for other leases then. It may go on at any time, and ends as any other lease.
        """
        size = lease.size
        self._drop(lease)
        if self._fits(self._charges, size):
            lease.part = self._charges
        self._grant(lease, size)
        self.serve()

    def serve(self) -> None:
        """Grant what is waited for, lane by lane in its order, as far as bytes are free."""
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
        """Say whether ``lease``, or a new one, may have so much more; resting ones are ended for it."""
        while not self._fits(part, more):
            if not self._resting:
                own = lease in part.leases and lease not in part.growing
                return len(part.leases) == len(part.growing) + own  # no other lease would end without more
            resting, on_wanted = next(iter(self._resting.items()))
            del self._resting[resting]
            self._drop(resting)
            on_wanted()
        return True

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

    def charge(self, size: int) -> None:
        """Count so many bytes more, or less, that have not waited."""
        self._count(self._charges, size)
        if size < 0:
            self.serve()

    @property
    def tight(self) -> bool:
        """Whether more is charged than the budget has for it."""
        return self._charges.used > self._charges.reserve and self._shared > self._shared_max

    # -------------------------------------------------------------------------------------- stalls

    def overdue(self, now: float, stall_s: float) -> Iterator[tuple[Lease, float]]:
        """Return leases for which others wait too long, and for how long clients could have ended them.

        To be called :data:`LOOKS` times in ``stall_s`` while leases wait.
        """
        waiting = [lease for part in self._lanes for queue in (part.growing, part.waiting) for lease in queue]
        for part in (*self._lanes, self._charges):
            for lease in list(part.leases if part.growing or part.waiting or part.excess else ()):
                if lease.since is None or lease.wanted:
                    continue
                moved_bytes, age_s = lease.owner.moved_bytes(lease), now - lease.since
                if moved_bytes != lease.moved_bytes:
                    lease.moved_bytes, lease.moved_at = moved_bytes, now
                silent_s = min(now - lease.moved_at, age_s)
                if (age_s >= stall_s or silent_s >= stall_s / _SILENCES) and any(
                    other.owner is not lease.owner for other in waiting
                ):
                    yield lease, age_s

    def used(self, *lanes: Lane) -> int:
        """Return how many bytes leases of these lanes have."""
        return sum(self._lanes[lane].used for lane in lanes)

    @property
    def charged(self) -> int:
        return self._charges.used

    def check(self) -> None:
        """Assert that bytes are counted right, and that no lease waits without a reason."""
        for part in self._lanes:
            queue = part.growing or part.waiting
            assert part.used == sum(lease.size for lease in part.leases)
            assert part.growing.keys() <= part.leases.keys()
            assert not queue or len(part.growing) < len(part.leases), "no lease could ever go on"
            assert not queue or not self._resting
            assert not queue or not self._fits(part, (lease := next(iter(queue))).wanted - lease.size)
        assert self.waiting == sum(len(part.growing) + len(part.waiting) for part in self._lanes)
        assert self._charges.used >= sum(lease.size for lease in self._charges.leases)
        assert self._shared == sum(part.excess for part in (*self._lanes, self._charges))
