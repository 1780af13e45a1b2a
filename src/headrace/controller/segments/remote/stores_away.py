"""All segment stores of a cluster, asked about themselves: at the same time, each once, for a bounded time.

What some of them answer is an answer: it says which of them do not. Only a purge is done when it is done in
every container.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from headrace.client.connections.pool import ConnectionPool
from headrace.cluster.store_node import StoreNode
from headrace.cluster.unserved import why_unserved
from headrace.cluster.watched_placement import WatchedPlacement
from headrace.controller.segments.remote.refusals import refusal
from headrace.controller.segments.remote.store_calls import TokenSource
from headrace.errors import (
    ClosedError,
    ConnectionLostError,
    ContainerOfflineError,
    HeadraceError,
    OverloadError,
    OwnershipError,
    ProtocolError,
    StorageWriteError,
    UnknownOutcomeError,
    UnreachableError,
)
from headrace.model.endpoint import Endpoint
from headrace.model.store_question import About, StoreQuestion, encode_question
from headrace.runtime.entropy import Entropy
from headrace.runtime.retry import RetryPolicy
from headrace.security.tokens import EVERYTHING
from headrace.web.process_parts import DOWN, UP, Contributor
from headrace.wire import commands as c
from headrace.wire.commands.kinds import Command

R = TypeVar("R")

ANSWER_S: Final = 5.0
"""How long an answer is waited for: a page is shown to somebody."""
_PURGE_S: Final = 600.0
PURGES: Final = RetryPolicy(initial_s=0.1, multiplier=2.0, delay_max_s=5.0, attempts=10)
"""Containers of a store that was killed have another owner by then."""
_PASSING: Final = (OwnershipError, OverloadError, UnknownOutcomeError)
_SHOWN_MAX: Final = 20


@dataclass(slots=True)
class _Answers:
    """What the stores said that were there, by id."""

    stores: Mapping[str, StoreNode]
    given: dict[str, Any]
    missing: dict[str, str]
    """Why there is no answer."""

    def unanswered(self) -> list[dict[str, str]]:
        return [
            {"store": store, "address": str(self.stores[store].endpoint), "why": why}
            for store, why in self.missing.items()
        ]

    def dicts(self) -> Iterable[tuple[str, dict[str, Any]]]:
        return ((store, found) for store, found in self.given.items() if isinstance(found, dict))


class StoresAway:
    """See ``AskedStores``. Used on one loop.

    Args:
        pool: of connections, which its owner closes. It says INTERNAL_VERSION.
        tokens: gives a token for all segments.
        placement: knows where stores and containers are.
        containers: of the cluster.
        entropy: of delays.
        policy: of the rounds of a purge.
        answer_s: how long an answer is waited for.
    """

    def __init__(
        self,
        pool: ConnectionPool,
        tokens: TokenSource,
        placement: WatchedPlacement,
        containers: int,
        entropy: Entropy,
        policy: RetryPolicy = PURGES,
        answer_s: float = ANSWER_S,
    ) -> None:
        self._pool = pool
        self._tokens = tokens
        self._placement = placement
        self._containers = containers
        self._entropy = entropy
        self._policy = policy
        self._answer_s = answer_s

    async def statistics(self, container: int | None = None) -> dict[str, Any]:
        """See ``AskedStores``. Of one container its owner alone is asked.

        Raises UnreachableError: that does not answer.
        """
        question = StoreQuestion(About.STATISTICS, container)
        if container is None:
            answers = await self._ask_all(question, self._placement.stores)
        else:
            owner = self._owner(container)
            answers = await self._ask_all(question, {} if owner is None else {owner[0]: owner[1]})
            for why in answers.missing.values():
                raise UnreachableError(f"container {container} is not known: {why}")
        containers: dict[str, Any] = {}
        stores: dict[str, Any] = {}
        for store, found in answers.dicts():
            for number, each in found.pop("containers", {}).items():
                if self._is_owner(store, number) or number not in containers:
                    containers[number] = each
            node = answers.stores[store]
            address, rest = str(node.endpoint), None if node.rest is None else str(node.rest)
            stores[store] = {"address": address, "rest": rest, "statistics": found}
        in_order = {number: containers[number] for number in sorted(containers, key=_number)}
        return {"containers": in_order, "stores": stores, "unanswered": answers.unanswered()}

    async def health(self) -> Sequence[Contributor]:
        answers = await self._ask_all(StoreQuestion(About.HEALTH), self._placement.stores)
        said = {store: list(_contributors(found)) for store, found in answers.given.items()}
        stores = [
            self._store_health(store, node, said.get(store, []), answers.missing.get(store, ""))
            for store, node in sorted(answers.stores.items())
        ]
        known = {
            each.name: each
            for store, found in said.items()
            for each in found
            if each.name.startswith("container-") and self._is_owner(store, each.name.partition("-")[2])
        }
        return [*stores, *(self._container_health(number, known) for number in range(self._containers))]

    def _store_health(
        self, store: str, node: StoreNode, said: Sequence[Contributor], why: str
    ) -> Contributor:
        served = sorted(n for n, claim in self._placement.claims.items() if claim.store == store)
        details = {
            "address": str(node.endpoint),
            "version": node.software,
            "containers": ", ".join(map(str, served)),
        }
        hindered = [
            f"{each.name}: {each.hindered or each.status}"
            for each in said
            if not (each.ready or each.name.startswith("container-"))
        ]
        if node.draining:
            hindered.append("it drains")
        details["why"] = why or "; ".join(hindered)
        return Contributor(f"store-{store}", DOWN if why else UP, details, hindered=details["why"])

    def _container_health(self, container_id: int, known: Mapping[str, Contributor]) -> Contributor:
        name, owner = f"container-{container_id}", self._owner(container_id)
        if owner is None:
            wanted = self._placement.intended(container_id)
            return Contributor(
                name, DOWN, {"why": why_unserved(self._placement.stores, wanted, container_id)}
            )
        found = known.get(name) or Contributor(name, UP)  # its claim says that it is served
        found.details = {"store": owner[0], **found.details}
        return found

    async def optimisers(self) -> dict[str, Any]:
        answers = await self._ask_all(StoreQuestion(About.OPTIMISERS), self._placement.stores)
        found = [each for _, each in answers.dicts()]
        containers = {each["container"]: each for one in found for each in one["containers"]}
        return {
            "mode": ", ".join(sorted({one["mode"] for one in found})),
            "paused": bool(found) and all(one["paused"] for one in found),
            "containers": [containers[number] for number in sorted(containers)],
            "unanswered": answers.unanswered(),
        }

    async def pause_optimisers(self, *, paused: bool) -> None:
        answers = await self._ask_all(StoreQuestion(About.PAUSE, paused=paused), self._placement.stores)
        for missing in answers.unanswered():
            what = "paused" if paused else "resumed"
            raise UnreachableError(
                f"segment store {missing['address']} did not answer, the others have {what}: repeat it "
                f"({missing['why']})"
            )

    # ---- purge

    async def purge(self, segments: Sequence[str]) -> None:
        """See ``AskedStores``. Each owner gets all names: it may have got a container meanwhile.

        Raises:
            ContainerOfflineError: some containers took no part; the others are done. Repeat it.
            StorageWriteError: it failed in one, or that is not known. Repeat it.
        """
        names = [*segments]
        left = set(range(self._containers))
        why, failures = "it has no segment store", 0
        while True:
            owners = {owner[1].endpoint for owner in map(self._owner, sorted(left)) if owner is not None}
            for outcome in await _together(self._purge_at(endpoint, names) for endpoint in owners):
                if isinstance(outcome, _PASSING) and not isinstance(outcome, ClosedError):
                    why = str(outcome)
                    continue
                if isinstance(outcome, BaseException):
                    raise outcome
                if outcome.problem:
                    raise StorageWriteError(f"not everything is purged: {outcome.problem}")
                left.difference_update(outcome.containers)
            if not left:
                return
            failures += 1
            if failures >= self._policy.attempts:
                some = ", ".join(map(str, sorted(left)[:_SHOWN_MAX]))
                raise ContainerOfflineError(
                    f"containers {some} took no part in the purge ({why}); the others are done: repeat it"
                )
            await asyncio.sleep(self._policy.delay_s(failures, self._entropy.random()))

    async def _purge_at(self, endpoint: Endpoint, names: list[str]) -> c.SegmentsPurged:
        request = c.PurgeSegments(0, self._tokens(EVERYTHING), names)
        return await self._call(endpoint, request, c.SegmentsPurged, _PURGE_S)

    # ---- questions

    async def _ask_all(self, question: StoreQuestion, stores: Mapping[str, StoreNode]) -> _Answers:
        asked = dict(stores)
        outcomes = await _together(self._ask(node.endpoint, question) for node in asked.values())
        answers = _Answers(asked, {}, {})
        for store, outcome in zip(asked, outcomes, strict=True):
            if isinstance(outcome, HeadraceError):
                answers.missing[store] = str(outcome)
            elif isinstance(outcome, BaseException):
                raise outcome
            else:
                answers.given[store] = outcome
        return answers

    async def _ask(self, endpoint: Endpoint, question: StoreQuestion) -> Any:
        request = c.AskStore(0, self._tokens(EVERYTHING), encode_question(question))
        reply = await self._call(endpoint, request, c.StoreAnswer, self._answer_s)
        try:
            return json.loads(reply.answer)
        except ValueError as error:
            raise ProtocolError(f"{endpoint} answers what is not JSON: {error}") from None

    async def _call(self, endpoint: Endpoint, request: Command, reply: type[R], timeout_s: float) -> R:
        """Ask once; connecting counts, too."""
        try:
            async with asyncio.timeout(timeout_s):
                found = await self._pool.call(endpoint, request, timeout_s=None)
        except TimeoutError:
            raise ConnectionLostError(f"{endpoint} did not answer within {timeout_s:.0f} s") from None
        if isinstance(found, reply):
            return found
        raise refusal(str(endpoint), found)

    # ---- places

    def _owner(self, container_id: int) -> tuple[str, StoreNode] | None:
        """Return the live store that has claimed a container."""
        claim = self._placement.claims.get(container_id)
        node = None if claim is None else self._placement.stores.get(claim.store)
        return None if claim is None or node is None else (claim.store, node)

    def _is_owner(self, store: str, number: str) -> bool:
        owner = self._owner(_number(number))
        return owner is not None and owner[0] == store


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else -1


def _contributors(found: object) -> Iterable[Contributor]:
    for each in found if isinstance(found, list) else ():
        with suppress(TypeError):
            yield Contributor(**each)


async def _together(calls: Iterable[Any]) -> list[Any]:
    return await asyncio.gather(*calls, return_exceptions=True)
