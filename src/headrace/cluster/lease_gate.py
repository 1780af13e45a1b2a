"""One gate in front of everything that a container answers.

Requests, reads that wait at the tail, acknowledgements of what has become durable: each looks here at the
moment it answers. It is shut once the lease has ended by the process's own clock, whatever the coordinator
says or does not say, and open again if the same session comes back.
"""

from __future__ import annotations

from headrace.coordination.lease import Lease


class LeaseGate:
    """Which containers may answer now. Used on one event loop."""

    def __init__(self) -> None:
        self._lease: Lease | None = None
        self._admitted: set[int] = set()

    @property
    def is_open(self) -> bool:
        """Whether the store is a member now, as far as it can know."""
        return self._lease is not None and self._lease.is_valid

    def serves(self, container_id: int) -> bool:
        """Whether a container may answer now: it is claimed, under a lease that is valid."""
        return container_id in self._admitted and self.is_open

    def begin(self, lease: Lease) -> None:
        """A session has begun; nothing is admitted."""
        assert not self._admitted
        self._lease = lease

    def end(self) -> None:
        """The session is over. Idempotent."""
        self._lease = None
        self._admitted.clear()

    def admit(self, container_id: int) -> None:
        """The store holds the claim, and has made sure that the log is its own."""
        self._admitted.add(container_id)

    def withdraw(self, container_id: int) -> None:
        """The container answers nothing any more. Idempotent."""
        self._admitted.discard(container_id)
