"""How long a request must wait so that a rate is kept: a token bucket, without a clock of its own.

A bucket fills at its rate up to its capacity. A request consumes at once, whatever is in it, and waits until
what it owes has flowed in. So requests are served in the order in which they came, one that is larger than
the capacity is served too, and in any interval no more begins than the capacity, what the rate gives in that
time, and one request.
"""

from __future__ import annotations

from headrace.errors import InvalidArgumentError


class TokenBucket:
    """``rate`` tokens per second, at most ``capacity`` saved up; it is full at the start."""

    __slots__ = ("_capacity", "_filled_at", "_rate", "_tokens")

    def __init__(self, rate: float, capacity: float) -> None:
        """Raises: InvalidArgumentError: one of them is not above zero."""
        if not (rate > 0 and capacity > 0):
            raise InvalidArgumentError(f"a rate and its capacity are above zero, not {rate} and {capacity}")
        self._rate = rate
        self._capacity = capacity
        self._tokens = capacity
        self._filled_at: float | None = None

    def consume(self, amount: float, now: float) -> float:
        """Consume at ``now``, in seconds of a clock of the caller's choice; return the seconds to wait.

        A clock that goes back adds nothing.
        """
        if self._filled_at is None:
            self._filled_at = now
        passed_s = max(0.0, now - self._filled_at)
        self._filled_at = max(now, self._filled_at)
        self._tokens = min(self._capacity, self._tokens + passed_s * self._rate) - amount
        return max(0.0, -self._tokens / self._rate)


class RequestBudget:
    """Requests and bytes per second that may be asked of a store; None: as many as there are.

    One budget may be given to several users, who share it. What was not used is saved up for one second.
    """

    __slots__ = ("_bytes", "_requests")

    def __init__(self, requests_per_s: float | None = None, bytes_per_s: float | None = None) -> None:
        """Raises: InvalidArgumentError: a rate is not above zero."""
        self._requests = _one_second_of(requests_per_s)
        self._bytes = _one_second_of(bytes_per_s)

    def consume(self, size: int, now: float) -> float:
        """Consume one request of ``size`` bytes at ``now``; return the seconds it has to wait."""
        wait_s = 0.0
        if self._requests is not None:
            wait_s = self._requests.consume(1, now)
        if self._bytes is not None and size:
            wait_s = max(wait_s, self._bytes.consume(size, now))
        return wait_s


def _one_second_of(rate: float | None) -> TokenBucket | None:
    # Less than one a second is saved up for as long as one request takes.
    return None if rate is None else TokenBucket(rate, max(rate, 1.0))
