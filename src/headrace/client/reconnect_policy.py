"""When to try a lost connection again, and when to give up. Pure.

The first attempts follow each other quickly, because most losses are a server that restarts or a container
that moves; later ones are spread so that a thousand writers do not reconnect at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

REFUSED_S: Final = 10.0
"""How long a call is repeated that long-term storage refuses: it goes on to until somebody acts, and may just
have read new credentials.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconnectPolicy:
    """Delays in seconds. ``give_up_s`` is counted from the first failure after the last success."""

    initial_s: float = 0.001
    multiplier: float = 4.0
    delay_max_s: float = 1.0
    give_up_s: float = 120.0

    def __post_init__(self) -> None:
        assert 0 < self.initial_s <= self.delay_max_s
        assert self.multiplier >= 1
        assert self.give_up_s >= 0

    def delay_s(self, failures: int, chance: float) -> float:
        """Return how long to wait after ``failures`` failures in a row; ``chance`` in [0, 1) spreads it."""
        assert failures >= 1
        full = min(self.initial_s * self.multiplier ** min(failures - 1, 32), self.delay_max_s)
        return full * (0.5 + 0.5 * chance)


def refusal_policy(policy: ReconnectPolicy) -> ReconnectPolicy:
    """Return when to repeat calls that long-term storage refuses, of a client with this policy."""
    return ReconnectPolicy(initial_s=0.25, multiplier=2.0, give_up_s=min(REFUSED_S, policy.give_up_s))


class Reconnects:
    """Failures in a row of one flow, and how long to wait after each."""

    __slots__ = ("_failures", "_policy", "_since")

    def __init__(self, policy: ReconnectPolicy) -> None:
        self._policy = policy
        self._failures = 0
        self._since = 0.0

    @property
    def failures(self) -> int:
        return self._failures

    def on_success(self) -> None:
        self._failures = 0

    def on_failure(self, now: float, chance: float) -> float | None:
        """Return the seconds to wait, or None: it has failed for too long."""
        if self._failures == 0:
            self._since = now
        self._failures += 1
        delay = self._policy.delay_s(self._failures, chance)
        return None if now + delay - self._since > self._policy.give_up_s else delay
