"""A copy of map, claims and stores that keeps up by watches: where a container is served, without asking.

Several reads may be under way, so an answer that was asked for earlier can come later: of two reads the one
that was begun later is right, and of two maps the one of the higher generation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from headrace.cluster.claim_node import CLAIMS, Claim
from headrace.cluster.map_node import MAP, NOBODY, ContainerMap
from headrace.cluster.node_reads import read_claims, read_map
from headrace.cluster.store_node import STORES, decode_store
from headrace.cluster.watched_members import WatchedMembers, follow
from headrace.coordination.contract import Session
from headrace.model.endpoint import Endpoint
from headrace.runtime.entropy import Entropy


class WatchedPlacement:
    """What is known of the containers' places. Used on one event loop, with one session at a time."""

    def __init__(self, entropy: Entropy) -> None:
        self.map = ContainerMap.empty(0)
        self.claims: dict[int, Claim] = {}
        self._entropy = entropy
        self._watched = WatchedMembers(STORES, decode_store, entropy, self._changed)
        self.stores = self._watched.nodes
        self._begun = 0
        self._map_read = self._claims_read = self._map_learned = 0
        self._on_change: list[Callable[[], None]] = []

    # ---- questions

    def locate(self, container_id: int) -> Endpoint | None:
        """Return where a container is served, or will be; None: nowhere, as far as is known."""
        claim = self.claims.get(container_id)
        for store in (claim.store if claim is not None else NOBODY, self.intended(container_id)):
            if store in self.stores:
                return self.stores[store].endpoint
        return None

    def intended(self, container_id: int) -> str:
        """Return the store to which the map gives a container."""
        places = self.map.placements
        return places[container_id].store if container_id < len(places) else NOBODY

    def now(self) -> int:
        """Return a mark: what is read from now on is newer."""
        return self._begun

    def is_newer(self, mark: int, *, and_map: bool) -> bool:
        """Whether the claims, and if asked the map, were read in reads begun after ``mark`` was made."""
        return self._claims_read > mark and (not and_map or self._map_read > mark)

    @property
    def map_mark(self) -> int:
        """The mark of the moment at which the present map became known."""
        return self._map_learned

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` whenever something was read."""
        self._on_change.append(callback)

    # ---- reads

    async def follow(self, session: Session) -> None:
        """Keep up until the session is over.

        Raises:
            SessionExpiredError: it is.
        """
        maps, claims = session.watch(MAP), session.watch_children(CLAIMS)
        async with asyncio.TaskGroup() as group:
            group.create_task(follow(maps, self._entropy, lambda: self._read_map(session)))
            group.create_task(follow(claims, self._entropy, lambda: self._read_claims(session)))
            group.create_task(self._watched.follow(session))

    async def look(self, session: Session) -> None:
        """Read map and claims now. Raises what a session does."""
        await asyncio.gather(self._read_map(session), self._read_claims(session))

    async def _read_map(self, session: Session) -> None:
        self._begun += 1
        number = self._begun
        found = await read_map(session)
        if found is not None:
            self.learn_map(found[0])
        self._map_read = max(self._map_read, number)
        self._changed()

    async def _read_claims(self, session: Session) -> None:
        self._begun += 1
        number = self._begun
        claims = await read_claims(session)
        if number > self._claims_read:
            self._claims_read = number
            self.claims = claims
            self._changed()

    def learn_map(self, container_map: ContainerMap) -> None:
        """Take a map for the present one, unless it is older."""
        if container_map.generation > self.map.generation:
            self.map = container_map
            self._map_learned = self._begun

    def _changed(self) -> None:
        for callback in self._on_change:
            callback()
