"""The containers of one store for the time of one session: the reconciler is asked, and its steps are done.

Of the steps for one container there is one at a time, but that a take does not wait. What belongs to a life
of a container that is over comes too late, and changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from headrace.cluster.claim_node import CLAIM_NODE_VERSION, Claim, claim_path, encode_container_claim
from headrace.cluster.container_host import ContainerHost
from headrace.cluster.intent import Intent
from headrace.cluster.lease_gate import LeaseGate
from headrace.cluster.local_containers import LocalContainers
from headrace.cluster.observed import ObservedClaim, Phase, Unsure
from headrace.cluster.reconciler import Step, next_step
from headrace.cluster.session_works import RETRY, ask_until_known
from headrace.cluster.watched_placement import WatchedPlacement
from headrace.coordination.contract import Session
from headrace.errors import (
    FencedOutError,
    MetadataConflictError,
    NodeExistsError,
    NoSuchNodeError,
    SessionExpiredError,
    UnknownOutcomeError,
)
from headrace.runtime.entropy import Entropy
from headrace.runtime.logs import logger

_log = logger(__name__)


class ContainerSteps:
    """Does what follows for each container. Used on one event loop.

    ``on_change``: called when a step has ended, or a container has changed: it is time for :meth:`act`.
    """

    def __init__(
        self,
        session: Session,
        me: str,
        containers: int,
        host: ContainerHost,
        gate: LeaseGate,
        placement: WatchedPlacement,
        entropy: Entropy,
        on_change: Callable[[], None],
    ) -> None:
        self.over = asyncio.Event()
        """Set when a step has learned that the session is over."""
        self.containers = LocalContainers(containers)
        self._session = session
        self._me = me
        self._count = containers
        self._host = host
        self._gate = gate
        self._placement = placement
        self._entropy = entropy
        self._on_change = on_change
        self._loop = asyncio.get_running_loop()
        self._steps: dict[object, asyncio.Task[None]] = {}
        """By container, or by what a step does beside others."""

    def act(self) -> None:
        """Begin the next step of each container, unless one is under way."""
        intent = Intent.of(self._me, self._placement.map)
        for container_id in range(self._count):
            claim, now_s = self._claim_of(container_id), self._loop.time()
            wanted = intent.wants(container_id)
            waits = wanted and isinstance(claim, Claim) and claim.store != self._me
            self.containers.wait_for_claim(container_id, waits, now_s)
            step = next_step(self._me, wanted, claim, self.containers[container_id], now_s)
            if step is not Step.NOTHING and (container_id not in self._steps or step is Step.TAKE):
                self._begin_step(container_id, step)

    async def end(self) -> None:
        """Stop all steps, and take what is here. The gate is shut before."""
        steps, self._steps = list(self._steps.values()), {}
        for task in steps:
            task.cancel()
        if steps:
            await asyncio.wait(steps)
        here = self.containers.here()
        await asyncio.gather(*(self._take_quietly(container_id) for container_id in here))

    # ---------------------------------------------------------------------------------- events of the host

    def on_failed(self, container_id: int) -> None:
        if self._runs(container_id):
            self._gate.withdraw(container_id)
            self.containers.on_failed(container_id, self._loop.time(), starts_again=True)
            self._on_change()

    def on_online(self, container_id: int, container_epoch: int) -> None:
        if self._runs(container_id):
            self._gate.withdraw(container_id)
            self.containers.on_recovered(container_id, container_epoch)
            self._on_change()

    def on_fenced(self, container_id: int) -> None:
        if self._runs(container_id):
            self._gate.withdraw(container_id)
            self.containers.on_fenced(container_id, self._placement.now(), self._loop.time())
            self._on_change()

    def _runs(self, container_id: int) -> bool:
        return self.containers[container_id].phase in {Phase.STARTING, Phase.RECOVERED, Phase.SERVING}

    # ---------------------------------------------------------------------------------- steps

    def _begin_step(self, container_id: int, step: Step) -> None:
        if step in {Step.WAIT_FOR_CLAIM, Step.CLAIM, Step.DROP}:
            self._silence(container_id)
        if step is Step.LOOK:
            look = ask_until_known(self._entropy, lambda: self._placement.look(self._session))
            self._begin(Step.LOOK, look)
        elif step is Step.CLAIM:
            self._begin(container_id, self._make_claim(container_id))
        elif step is Step.SERVE:
            self._begin(container_id, self._confirm(container_id))
        elif step is Step.DROP:
            self._begin(container_id, self._drop_claim(container_id))
        elif step in {Step.GIVE, Step.TAKE} and (step, container_id) not in self._steps:
            self._gate.withdraw(container_id)
            run = self._give if step is Step.GIVE else self._take
            life = self.containers.on_given(container_id) if step is Step.GIVE else 0
            if step is Step.TAKE:
                self.containers.on_taken(container_id)
            self._begin((step, container_id), run(container_id, life))

    def _silence(self, container_id: int) -> None:
        """Answer nothing, and stay recovered."""
        self._gate.withdraw(container_id)
        if self.containers[container_id].phase is Phase.SERVING:
            self.containers.on_silent(container_id)

    def _begin(self, key: object, step: Coroutine[Any, Any, None]) -> None:
        """Run a step, unless one of this key is under way."""
        if key in self._steps:
            step.close()
            return
        task = self._steps[key] = self._loop.create_task(self._run(step))
        task.add_done_callback(lambda _: self._on_ended(key, task))

    async def _run(self, step: Coroutine[Any, Any, None]) -> None:
        try:
            await step
        except SessionExpiredError:
            self.over.set()

    def _on_ended(self, key: object, task: asyncio.Task[None]) -> None:
        if self._steps.get(key) is task:
            del self._steps[key]
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a step for a container failed", exc_info=error)
        self._on_change()

    async def _give(self, container_id: int, life: int) -> None:
        error: Exception | None = None
        container_epoch = 0
        try:
            container_epoch = await self._host.give(container_id)
        except Exception as failure:  # noqa: BLE001 - the reconciler decides what follows
            error = failure
        if self.containers.life(container_id) != life:
            return
        if self.containers[container_id].phase is not Phase.STARTING:
            return  # it was taken, or the host was faster
        if error is None:
            self.containers.on_recovered(container_id, container_epoch)
        elif isinstance(error, FencedOutError):
            self.on_fenced(container_id)
        else:
            _log.warning("a container did not start", container=container_id, error=str(error))
            self.containers.on_failed(container_id, self._loop.time())

    async def _take(self, container_id: int, _: int) -> None:
        await self._take_quietly(container_id)
        self.containers.on_ended(container_id)

    async def _take_quietly(self, container_id: int) -> None:
        try:
            await self._host.take(container_id)
        except Exception as error:  # noqa: BLE001 - it has ended all the same
            _log.error("a container did not end in order", container=container_id, error=str(error))

    async def _confirm(self, container_id: int) -> None:
        """Let it answer, if the log is still this process's: the claim keeps out whoever opens it later."""
        life, container_epoch = (
            self.containers.life(container_id),
            self.containers[container_id].container_epoch,
        )
        error: Exception | None = None
        try:
            await self._host.confirm(container_id)
        except Exception as failure:  # noqa: BLE001 - it is tried again, or the host says what has happened
            error = failure
        local = self.containers[container_id]
        if self.containers.life(container_id) != life or local.phase is not Phase.RECOVERED:
            return  # something else has happened to it
        if isinstance(error, FencedOutError):
            self.on_fenced(container_id)
        elif error is not None:
            _log.warning("a log is asked again", container=container_id, error=str(error))
            await asyncio.sleep(RETRY.delay_s(1, self._entropy.random()))
        elif (
            self._claim_of(container_id)
            == Claim(self._me, container_epoch)
            == Claim(self._me, local.container_epoch)
        ):
            self.containers.on_serving(container_id)
            self._gate.admit(container_id)

    # ---------------------------------------------------------------------------------- claims

    def _claim_of(self, container_id: int) -> ObservedClaim:
        """Return the claim as of a moment after the map became known, and after all that happened here.

        By an older look a container that was moved would seem to have no owner.
        """
        mark, known = self.containers.known_claim(container_id)
        map_mark = self._placement.map_mark
        if self._placement.is_newer(max(mark, map_mark), and_map=known is Unsure.UNKNOWN):
            return self._placement.claims.get(container_id)
        return known if mark >= map_mark else Unsure.UNKNOWN

    async def _make_claim(self, container_id: int) -> None:
        claim = Claim(self._me, self.containers[container_id].container_epoch)
        known: ObservedClaim = Unsure.UNKNOWN
        try:
            await self._session.create(
                claim_path(container_id), encode_container_claim(claim), ephemeral=True
            )
            known = claim
        except (NodeExistsError, UnknownOutcomeError) as error:
            _log.debug("a claim is looked at again", container=container_id, error=str(error))
        finally:
            self.containers.learn_claim(container_id, self._placement.now(), known)

    async def _drop_claim(self, container_id: int) -> None:
        known: ObservedClaim = Unsure.UNKNOWN
        try:
            await self._session.delete(claim_path(container_id), CLAIM_NODE_VERSION)
            known = None
        except (NoSuchNodeError, MetadataConflictError, UnknownOutcomeError) as error:
            _log.debug("a claim is looked at again", container=container_id, error=str(error))
        finally:
            self.containers.learn_claim(container_id, self._placement.now(), known)
