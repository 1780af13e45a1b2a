"""Retries with a bound, a growing delay and jitter, so that a thousand clients do not retry at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from headrace.errors import OverloadError
from headrace.runtime.entropy import Entropy

T = TypeVar("T")
Retryable = type[Exception] | tuple[type[Exception], ...] | Callable[[Exception], bool]


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often to retry, and the back-off between attempts.

    The n-th delay is ``initial_s * multiplier**n``, at most ``delay_max_s``, times a random
    factor between one half and one. ``attempts`` counts calls, not repetitions.
    """

    initial_s: float = 0.1
    multiplier: float = 2.0
    delay_max_s: float = 5.0
    attempts: int = 8

    def __post_init__(self) -> None:
        assert self.attempts >= 1
        assert self.initial_s >= 0
        assert self.multiplier >= 1
        assert self.delay_max_s >= 0

    def delay_s(self, failures: int, chance: float) -> float:
        """Return the seconds to wait after the given number of failures; ``chance`` is in [0, 1)."""
        assert failures >= 1
        # The exponent is capped: 2.0 ** 1024 overflows, and a policy may have that many attempts.
        full = min(self.initial_s * self.multiplier ** min(failures - 1, 64), self.delay_max_s)
        return full * (0.5 + 0.5 * chance)


async def retry(
    policy: RetryPolicy,
    fn: Callable[[], Awaitable[T]],
    *,
    entropy: Entropy,
    retryable: Retryable = OverloadError,
    on_retry: Callable[[int, Exception, float], None] | None = None,
) -> T:
    """Call ``fn`` until it succeeds, fails in a way that is not ``retryable``, or the attempts are used up.

    Args:
        policy: bounds and delays.
        fn: makes one attempt. If its outcome can be unknown, it carries an identity.
        entropy: jitter.
        retryable: error class(es) or a predicate. The default is the family that says "wait, send again".
        on_retry: called before each wait with failures so far, the last error and the delay in seconds.

    Raises:
        Exception: the last one of ``fn``, unchanged.
    """
    failures = 0
    while True:
        try:
            return await fn()
        except Exception as error:
            failures += 1
            if failures >= policy.attempts or not _matches(retryable, error):
                raise
            delay_s = policy.delay_s(failures, entropy.random())
            if on_retry is not None:
                on_retry(failures, error, delay_s)
        await asyncio.sleep(delay_s)


def _matches(retryable: Retryable, error: Exception) -> bool:
    if isinstance(retryable, (type, tuple)):
        return isinstance(error, retryable)
    return retryable(error)
