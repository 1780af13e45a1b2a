"""A segment store as a member of the cluster: it serves what the map gives it, and says so by claims.

A member lives for one session with the coordinator. While the lease is invalid the gate is shut, and the logs
stay open: if the same session comes back, it goes on. If the session is over, everything is taken, and the
store comes back as another member.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from headrace.cluster.container_host import ContainerHost
from headrace.cluster.container_steps import ContainerSteps
from headrace.cluster.leader_node import LEADER
from headrace.cluster.lease_gate import LeaseGate
from headrace.cluster.session_works import (
    InSession,
    ask_until_known,
    run_until_over,
    serve_sessions,
    wait_at_most,
)
from headrace.cluster.store_node import StoreNode, encode_store, store_path
from headrace.cluster.watched_members import WatchedMembers
from headrace.cluster.watched_placement import WatchedPlacement
from headrace.coordination.contract import Coordinator, Session
from headrace.coordination.member_node import CONTROLLERS, decode_member
from headrace.errors import (
    HeadraceError,
    MetadataConflictError,
    NodeExistsError,
    NoSuchNodeError,
    SessionExpiredError,
)
from headrace.runtime.entropy import Entropy
from headrace.runtime.logs import logger
from headrace.runtime.supervisor import Supervisor

_log = logger(__name__)

_TICK_S: Final = 0.5
"""Between two looks at times that may be over, when nothing changes."""
_ID_BYTES: Final = 8


class StoreMember:
    """One store in its cluster. Used on one event loop; the host calls what ``ContainerEvents`` has."""

    def __init__(
        self,
        coordinator: Coordinator,
        host: ContainerHost,
        node: StoreNode,
        containers: int,
        gate: LeaseGate,
        entropy: Entropy,
        beside: Sequence[InSession] = (),
    ) -> None:
        """``node`` is what other members see; failures, and that it drains, are added here. ``beside`` run
        in each session, too.
        """
        self.id = ""
        """Of this session, or of the last one."""
        self.placement = WatchedPlacement(entropy)
        self.controllers = WatchedMembers(CONTROLLERS, decode_member, entropy, lambda: None)
        """Those that are alive."""
        self._coordinator = coordinator
        self._host = host
        self._base = node
        self._count = containers
        self._gate = gate
        self._entropy = entropy
        self._beside = beside
        self._supervisor = Supervisor("store member")
        self._changed = asyncio.Event()
        self._acted = asyncio.Event()
        self._draining = False
        self._steps: ContainerSteps | None = None
        """While there is a session."""
        self._session: Session | None = None
        self._published: StoreNode | None = None
        self.placement.on_change(self._changed.set)

    @property
    def session(self) -> Session:
        """The present one. Raises SessionExpiredError: there is none now."""
        if self._session is None:
            raise SessionExpiredError("the store has no session with the coordinator now")
        return self._session

    def start(self) -> None:
        """Be a member from now on."""
        self._supervisor.spawn("sessions", serve_sessions(self._coordinator, self._entropy, self._serve))

    async def stop(self, drain_timeout_s: float = 30.0) -> None:
        """Leave: let others take over what they can, for at most ``drain_timeout_s``, and end the rest.

        If there is no controller that could lead, nobody gives them to others: they are ended at once.
        """
        self.drain()
        try:
            async with asyncio.timeout(drain_timeout_s):
                while not self._is_drained() and await self._may_be_relieved():
                    self._acted.clear()
                    await self._acted.wait()
        except TimeoutError:
            pass
        if not self._is_drained():
            _log.warning("the store leaves with containers that were not taken over")
        await self._supervisor.stop()

    def drain(self) -> None:
        """Ask for all containers to be moved elsewhere; go on until they are."""
        self._draining = True
        self._changed.set()

    # ---------------------------------------------------------------------------------- events of the host

    def on_failed(self, container_id: int) -> None:
        if self._steps is not None:
            self._steps.on_failed(container_id)

    def on_online(self, container_id: int, container_epoch: int) -> None:
        if self._steps is not None:
            self._steps.on_online(container_id, container_epoch)

    def on_fenced(self, container_id: int) -> None:
        if self._steps is not None:
            self._steps.on_fenced(container_id)

    # ---------------------------------------------------------------------------------- one session

    async def _serve(self, session: Session) -> None:
        """Be a member until the session is over, or until cancelled."""
        self.id = self._entropy.token(_ID_BYTES).hex()
        self._session = session
        steps = self._steps = ContainerSteps(
            session,
            self.id,
            self._count,
            self._host,
            self._gate,
            self.placement,
            self._entropy,
            self._changed.set,
        )
        self._published = None
        self._gate.begin(session.lease)
        try:
            await run_until_over(
                self.placement.follow(session),
                self.controllers.follow(session),
                self._publish_changes(session),
                self._act_on_changes(session, steps),
                *(work(session) for work in self._beside),
                _raise_when_over(steps),
            )
        finally:
            self._gate.end()
            self._steps = self._session = None
            self._acted.set()
            await steps.end()

    async def _act_on_changes(self, session: Session, steps: ContainerSteps) -> None:
        while True:
            self._changed.clear()
            if session.lease.is_valid:  # what is known may be old, and nobody is fenced for that
                steps.act()
            self._acted.set()
            await wait_at_most(self._changed, _TICK_S)

    async def _publish_changes(self, session: Session) -> None:
        """Keep the node of this store up to date."""
        while True:
            while self._published != self._node():
                await ask_until_known(self._entropy, lambda: self._publish(session))
            self._acted.clear()
            await self._acted.wait()

    async def _publish(self, session: Session) -> None:
        node = self._node()
        data = encode_store(node)
        present = await session.read(store_path(self.id))
        try:
            if present is None:
                await session.create(store_path(self.id), data, ephemeral=True)
            elif present.data != data:
                await session.write(store_path(self.id), data, present.version)
        except (NodeExistsError, NoSuchNodeError, MetadataConflictError):
            return  # it is compared again
        self._published = node
        if self._steps is not None:
            self._steps.containers.on_reported(dict(node.failures))
            self._changed.set()

    def _node(self) -> StoreNode:
        failures = {} if self._steps is None else self._steps.containers.failures()
        return replace(self._base, draining=self._draining, failures=failures)

    async def _may_be_relieved(self) -> bool:
        try:
            return bool(await self.session.children(LEADER))
        except HeadraceError:
            return True  # it is not known

    def _is_drained(self) -> bool:
        """Whether nothing is here any more, or nobody else could take it."""
        if self._steps is None:
            return True
        others = (node for store, node in self.placement.stores.items() if store != self.id)
        if all(node.draining for node in others):
            return True
        intended = any(
            self.placement.intended(container_id) == self.id for container_id in range(self._count)
        )
        claimed = any(claim.store == self.id for claim in self.placement.claims.values())
        return not (intended or claimed or self._steps.containers.here())


async def _raise_when_over(steps: ContainerSteps) -> None:
    await steps.over.wait()
    raise SessionExpiredError("the session with the coordinator is over")
