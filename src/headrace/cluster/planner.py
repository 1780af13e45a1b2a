"""Who is to serve each container: from live stores, their claims, loads and the present map, the next map.

Pure, and deterministic: what it is given decides. Two kinds of moves. A *repair* is for a container without a
live store that may have it: its store is gone, drains, or has failed to start it three times. Repairs are
made at once, all of them, and move nothing else. A move for *balance* waits until everything is served,
touches only what has stayed in its place for ten seconds, and at most four containers are under way at a
time. It is made only where loads differ by a quarter of their mean, and the store that takes stays below the
one that gives by a tenth: for the container to come back loads have to change by twice as much.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from headrace.cluster.map_node import NOBODY, ContainerMap, Placement
from headrace.cluster.store_node import StoreNode

FAILURES_MAX: Final = 3
"""A container that has failed so often at a store is placed elsewhere."""
REST_MS: Final = 10_000
"""How long a container stays before it is moved for balance."""
MOVES_MAX: Final = 4
"""Containers under way at a time, when a move for balance is added."""
SPREAD_MAX: Final = 0.25
"""Difference of the loads of two stores that is left alone, as a part of the mean load."""
MARGIN: Final = 0.1
"""What has to be left of a difference after a move, as a part of the mean load."""


def plan(
    present: ContainerMap,
    stores: Mapping[str, StoreNode],
    claims: Mapping[int, str],
    now_ms: int,
    weights: Sequence[float] | None = None,
) -> ContainerMap:
    """Return the next map; ``present`` itself if nothing is to change.

    Args:
        present: the map as it is.
        stores: the live ones by id.
        claims: by container, the id of the store that serves it.
        now_ms: wall clock.
        weights: of each container, above 0: its part of the load. By default all are alike.
    """
    draft = _Draft(present, stores, weights or [1.0] * len(present.placements))
    draft.repair()
    if draft.is_served(claims):
        draft.balance(claims, now_ms)
    if draft.owners == [each.store for each in present.placements]:
        return present
    generation = present.generation + 1
    return ContainerMap(
        generation,
        tuple(
            each if each.store == store else Placement(store, generation, now_ms)
            for each, store in zip(present.placements, draft.owners, strict=True)
        ),
    )


def is_wanting(store: StoreNode, container_id: int) -> bool:
    """Whether a container has failed too often at a store."""
    return store.failures.get(container_id, 0) >= FAILURES_MAX


class _Draft:
    """The next map while it is made. Loads are parts of the capacity of a store, in sums that do not depend
    on the order of what is added: the plan for its own result is that result.
    """

    def __init__(
        self, present: ContainerMap, stores: Mapping[str, StoreNode], weights: Sequence[float]
    ) -> None:
        assert len(weights) == len(present.placements)
        assert all(weight > 0 for weight in weights)
        self._present = present.placements
        self._stores = stores
        self._takers = [store for store in sorted(stores) if not stores[store].draining]
        self._weights = weights
        self.owners = [each.store for each in present.placements]
        self._held: dict[str, set[int]] = {store: set() for store in stores}
        self._loads = dict.fromkeys(stores, 0.0)

    # ---- repairs

    def repair(self) -> None:
        """Give each container that cannot stay where it is to the store with the lowest load then."""
        lost = []
        for number, store in enumerate(self.owners):
            if self._may_stay(number, store):
                self._held[store].add(number)
            else:
                lost.append(number)
        for store in self._stores:
            self._sum(store)
        for number in sorted(lost, key=lambda number: (-self._weights[number], number)):
            takers = self._takers_of(number)
            self.owners[number] = min(takers, key=lambda store: self._with(store, number), default=NOBODY)
            if takers:
                self._held[self.owners[number]].add(number)
                self._sum(self.owners[number])

    def _may_stay(self, number: int, store: str) -> bool:
        node = self._stores.get(store)
        if node is None:
            return False
        if node.draining:
            return not self._takers  # it has it until another store is there
        return store in self._takers_of(number)

    def _takers_of(self, number: int) -> list[str]:
        """Return the stores that may have a container: of those that it failed at only the best."""
        good = [store for store in self._takers if not is_wanting(self._stores[store], number)]
        if good or not self._takers:
            return good
        least = min(self._stores[store].failures[number] for store in self._takers)
        return [store for store in self._takers if self._stores[store].failures[number] == least]

    # ---- balance

    def is_served(self, claims: Mapping[int, str]) -> bool:
        """Whether each container is served by a live store, but for those that fail."""
        failing = {number for node in self._stores.values() for number in node.failures}
        return all(
            claims.get(number) in self._stores or number in failing for number in range(len(self.owners))
        )

    def balance(self, claims: Mapping[int, str], now_ms: int) -> None:
        """Move what makes loads more alike, as long as the bounds allow it."""
        under_way = {number for number, store in enumerate(self.owners) if claims.get(number) != store}
        at_rest = {
            number
            for number, each in enumerate(self._present)
            if number not in under_way and self.owners[number] == each.store
            if not 0 <= now_ms - each.changed_ms < REST_MS
        }
        for _ in range(MOVES_MAX - len(under_way)):
            move = next(self._moves(at_rest), None)
            if move is None:
                return
            number, store = move
            at_rest.discard(number)
            self._held[self.owners[number]].discard(number)
            self._held[store].add(number)
            self._sum(self.owners[number])
            self._sum(store)
            self.owners[number] = store

    def _moves(self, at_rest: set[int]) -> Iterator[tuple[int, str]]:
        """Yield moves that are worth it: between the stores that differ most, what makes them most alike."""
        mean = math.fsum(self._weights) / (sum(self._stores[store].capacity for store in self._takers) or 1)
        by_load = sorted(self._takers, key=lambda store: (self._loads[store], store))
        for giver in reversed(by_load):
            for taker in by_load:
                if self._loads[giver] - self._loads[taker] <= SPREAD_MAX * mean:
                    break
                ends = [
                    (
                        max(self._loads[giver] - self._part(giver, number), self._with(taker, number)[0]),
                        number,
                    )
                    for number in sorted(at_rest)
                    if self.owners[number] == giver
                    and taker in self._takers_of(number)
                    and self._with(taker, number)[0] + MARGIN * mean <= self._loads[giver]
                ]
                if ends:
                    yield min(ends)[1], taker

    # ---- loads

    def _part(self, store: str, number: int) -> float:
        return self._weights[number] / self._stores[store].capacity

    def _with(self, store: str, number: int) -> tuple[float, str]:
        """Return the load of a store if it had a container, too; and its id, for the order."""
        return self._loads[store] + self._part(store, number), store

    def _sum(self, store: str) -> None:
        weight = math.fsum(self._weights[number] for number in self._held[store])
        self._loads[store] = weight / self._stores[store].capacity
