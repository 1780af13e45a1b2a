"""The map is written here: every controller runs this, and the one that leads plans.

It takes nothing but the coordinator, so it starts before rows can be read: they lie in containers. A leader
that was deposed loses by the version of the map.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from headrace.cluster.draining import delete_drain
from headrace.cluster.drains import LastingDrains, with_drains
from headrace.cluster.leader_node import Candidate
from headrace.cluster.leadership import Leadership
from headrace.cluster.loads import ContainerLoad, ContainerLoads
from headrace.cluster.map_node import MAP, ContainerMap, encode_map
from headrace.cluster.node_reads import read_claims, read_drains, read_map, read_stores
from headrace.cluster.planner import plan
from headrace.cluster.session_works import (
    RETRY,
    InSession,
    run_until_over,
    serve_sessions,
    wait_at_most,
)
from headrace.cluster.watched_placement import WatchedPlacement
from headrace.coordination.contract import Coordinator, Session
from headrace.errors import (
    HeadraceError,
    MetadataConflictError,
    NodeExistsError,
    NoSuchNodeError,
    SessionExpiredError,
)
from headrace.runtime.clock import Clock
from headrace.runtime.entropy import Entropy
from headrace.runtime.logs import logger
from headrace.runtime.supervisor import Supervisor

_log = logger(__name__)

_SETTLE_S: Final = 0.02
"""Changes that come within this time cost one plan."""
_TICK_S: Final = 1.0
"""Between two plans when nothing changes but loads and time."""
_ID_BYTES: Final = 8


class PlacementService:
    """The part of a controller in the placement of containers. Used on one event loop."""

    def __init__(
        self,
        coordinator: Coordinator,
        containers: int,
        clock: Clock,
        entropy: Entropy,
        gather_s: float = 0.5,
        beside: Sequence[InSession] = (),
    ) -> None:
        """``gather_s``: what a leader waits for more stores when no container has one that lives: they start
        together. ``beside`` run in each session, too.
        """
        self.placement = WatchedPlacement(entropy)
        """Where containers are, for whoever asks this controller."""
        self._coordinator = coordinator
        self._containers = containers
        self._clock = clock
        self._entropy = entropy
        self._gather_s = gather_s
        self._beside = beside
        self._loads = ContainerLoads(containers)
        self._drains = LastingDrains()
        self._supervisor = Supervisor("placement")
        self._leadership: Leadership | None = None
        self._changed = asyncio.Event()
        self._address = ""
        self.placement.on_change(self._changed.set)

    @property
    def is_leader(self) -> bool:
        return self._leadership is not None and self._leadership.is_leader

    def start(self, address: str = "") -> None:
        """Take part from now on. ``address``: of the REST interface of this controller, for people."""
        self._address = address
        self._supervisor.spawn("sessions", serve_sessions(self._coordinator, self._entropy, self._serve))

    async def stop(self) -> None:
        await self._supervisor.stop()

    def report(self, container_id: int, load: ContainerLoad) -> None:
        """A store has measured the load of a container. A hint: it may be lost."""
        self._loads.report(container_id, load, asyncio.get_running_loop().time())

    async def _serve(self, session: Session) -> None:
        me = Candidate(self._entropy.token(_ID_BYTES).hex(), self._address)
        leadership = self._leadership = Leadership(session, me, self._entropy, self._changed.set)
        try:
            await run_until_over(
                self.placement.follow(session),
                leadership.run(),
                self._lead(session),
                *(work(session) for work in self._beside),
            )
        finally:
            self._leadership = None

    async def _lead(self, session: Session) -> None:
        failures = 0
        while True:
            self._changed.clear()
            try:
                if self.is_leader:
                    await self._place(session)
                failures = 0
            except SessionExpiredError:
                raise
            except HeadraceError as error:
                failures += 1
                _log.warning("the map of containers is planned again", error=str(error))
                await asyncio.sleep(RETRY.delay_s(failures, self._entropy.random()))
                continue
            await wait_at_most(self._changed, _TICK_S)
            await asyncio.sleep(_SETTLE_S)

    async def _place(self, session: Session) -> None:
        """Plan once, and write the map if it is to change.

        The map is read before the stores: one that it names and that is missing there is dead, not new.
        """
        found = await read_map(session)
        present, version = found or (ContainerMap.empty(self._containers), -1)
        stores, claims = await asyncio.gather(read_stores(session), read_claims(session))
        if stores and not any(each.store in stores for each in present.placements):
            await asyncio.sleep(self._gather_s)
            stores = await read_stores(session)
        drains = await read_drains(session)
        for name in self._drains.over(drains, stores, asyncio.get_running_loop().time()):
            await delete_drain(session, name)
        stores = dict(with_drains(stores, drains))
        claimed = {number: claim.store for number, claim in claims.items()}
        wanted = plan(present, stores, claimed, self._clock.now_ms(), self._loads.weights)
        if wanted is present or not self.is_leader:
            return
        try:
            if version < 0:
                await session.create(MAP, encode_map(wanted))
            else:
                await session.write(MAP, encode_map(wanted), version)
        except (NodeExistsError, NoSuchNodeError, MetadataConflictError):
            _log.info("another leader has changed the map of containers")
            self._changed.set()
            return
        moved = sum(a != b for a, b in zip(present.placements, wanted.placements, strict=True))
        _log.info("containers are placed", generation=wanted.generation, moved=moved, stores=len(stores))
