"""Single requests to segment stores: to the owner of a segment, to the owners of many, to all stores.

What certainly did not happen is sent again to the owner, wherever it is now, and so is what may have happened
if that does no harm; a bounded number of times, with growing delays. Callers share connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from headrace.client.connections.pool import ConnectionPool
from headrace.controller.segments.remote.locator import StoreLocator
from headrace.controller.segments.remote.refusals import owner_of, refusal
from headrace.errors import (
    ClosedError,
    ConnectionLostError,
    HeadraceError,
    OwnershipError,
    TokenExpiredError,
)
from headrace.model.endpoint import Endpoint
from headrace.runtime.entropy import Entropy
from headrace.runtime.retry import RetryPolicy
from headrace.security.tokens import EVERYTHING
from headrace.wire.commands.kinds import Command

R = TypeVar("R")

TokenSource = Callable[[str], str]
"""Returns a token that allows everything to a segment, or to all (``*``); empty if stores want none."""

POLICY: Final = RetryPolicy(initial_s=0.01, multiplier=3.0, delay_max_s=1.0, attempts=7)
TIMEOUT_S: Final = 30.0


class Attempts:
    """The failed attempts of one call."""

    def __init__(self, policy: RetryPolicy, entropy: Entropy) -> None:
        self._policy = policy
        self._entropy = entropy
        self._failures = 0
        self.doubt: ConnectionLostError | None = None
        """Of an attempt that may have happened."""

    async def wait(self, error: HeadraceError) -> None:
        """Wait before the next attempt. Raises ``error`` if there is none, or that an attempt may have
        happened.
        """
        self._failures += 1
        if self._failures >= self._policy.attempts or isinstance(error, ClosedError):
            if self.doubt is None or self.doubt is error:
                raise error
            raise ConnectionLostError(f"{self.doubt}; and then: {error}") from error
        await asyncio.sleep(self._policy.delay_s(self._failures, self._entropy.random()))


@dataclass(slots=True)
class Connected:
    """What calls to segment stores need."""

    pool: ConnectionPool
    locator: StoreLocator
    tokens: TokenSource
    entropy: Entropy
    policy: RetryPolicy

    def attempts(self) -> Attempts:
        return Attempts(self.policy, self.entropy)


class StoreCalls:
    """Requests and their replies. Used on one loop."""

    def __init__(self, connected: Connected) -> None:
        self._connected = connected

    async def ask(
        self,
        segment: str,
        make: Callable[[str], Command],
        reply: type[R],
        *,
        about: str = "",
        repeats: bool = True,
        timeout_s: float | None = TIMEOUT_S,
    ) -> R:
        """Send what ``make`` makes of a token to the owner of ``segment``, and return its answer.

        Args:
            segment: whose owner is asked.
            make: called for each attempt.
            reply: the good answer.
            about: which segment refusals name, if it is another one.
            repeats: whether the request may be sent again when it was not answered.
            timeout_s: how long an attempt waits for its answer; None: as long as the connection lives.

        Raises:
            RequestError: the leaf that fits the refusal.
            ConnectionLostError: it may have happened.
            OwnershipError: the owner was not found or reached.
        """
        connected = self._connected
        attempts = connected.attempts()
        while True:
            owner: Endpoint | None = None
            try:
                endpoint = connected.locator.locate(segment)
                answer = await connected.pool.call(
                    endpoint, make(connected.tokens(segment)), timeout_s=timeout_s
                )
                if isinstance(answer, reply):
                    return answer
                owner = owner_of(answer)
                raise refusal(about or segment, answer)
            except (OwnershipError, ConnectionLostError, TokenExpiredError) as error:
                if isinstance(error, ConnectionLostError):
                    attempts.doubt = error
                    if not repeats:
                        raise
                elif isinstance(error, OwnershipError):
                    connected.locator.moved(segment, owner)
                await attempts.wait(error)

    async def ask_owners(
        self, segments: Sequence[str], make: Callable[[str, list[str]], Command], reply: type[R]
    ) -> list[tuple[list[int], R]]:
        """Ask the owners of many segments, each about its own, until all have answered.

        Returns:
            The places of the segments that an answer is about, and the answer.
        """
        connected = self._connected
        attempts = connected.attempts()
        answers: list[tuple[list[int], R]] = []
        pending = list(range(len(segments)))
        while pending:
            groups: dict[Endpoint, list[int]] = {}
            failure: HeadraceError | None = None
            unplaced: list[int] = []
            for place in pending:
                try:
                    groups.setdefault(connected.locator.locate(segments[place]), []).append(place)
                except OwnershipError as error:
                    unplaced.append(place)
                    failure = error
            outcomes = await _together(
                self._ask_some(endpoint, [segments[place] for place in places], make, reply)
                for endpoint, places in groups.items()
            )
            pending = unplaced
            for places, outcome in zip(groups.values(), outcomes, strict=True):
                if not isinstance(outcome, BaseException):
                    answers.append((places, outcome))
                    continue
                if not isinstance(outcome, OwnershipError | ConnectionLostError | TokenExpiredError):
                    raise outcome
                if isinstance(outcome, ConnectionLostError):
                    attempts.doubt = outcome
                pending += places
                failure = outcome
            if failure is not None:
                await attempts.wait(failure)
        return answers

    async def _ask_some(
        self, endpoint: Endpoint, names: list[str], make: Callable[[str, list[str]], Command], reply: type[R]
    ) -> R:
        connected = self._connected
        owner: Endpoint | None = None
        try:
            answer = await connected.pool.call(endpoint, make(connected.tokens(EVERYTHING), names))
            if isinstance(answer, reply):
                return answer
            owner = owner_of(answer) if len(names) == 1 else None
            raise refusal(names[0], answer)
        except OwnershipError:
            for name in names:
                connected.locator.moved(name, owner)
            raise

    async def ask_each(
        self, stores: Iterable[Endpoint], ask: Callable[[Endpoint], Awaitable[R]]
    ) -> list[R | BaseException]:
        """Ask several stores at the same time; return all answers, a failure in place of one."""
        return await _together(map(ask, stores))

    async def ask_store(
        self, endpoint: Endpoint, make: Callable[[str], Command], reply: type[R], timeout_s: float = TIMEOUT_S
    ) -> R:
        """Ask one store, about all that it has; what is asked may be sent again. Raises as :meth:`ask`."""
        connected = self._connected
        attempts = connected.attempts()
        while True:
            try:
                answer = await connected.pool.call(
                    endpoint, make(connected.tokens(EVERYTHING)), timeout_s=timeout_s
                )
                if isinstance(answer, reply):
                    return answer
                raise refusal(str(endpoint), answer)
            except (OwnershipError, ConnectionLostError, TokenExpiredError) as error:
                if isinstance(error, ConnectionLostError):
                    attempts.doubt = error
                await attempts.wait(error)


async def _together(calls: Iterable[Awaitable[R]]) -> list[R | BaseException]:
    return await asyncio.gather(*calls, return_exceptions=True)
