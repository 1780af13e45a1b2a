"""The buckets of this controller, with the work that runs on each of them.

A controller is a member for the time of one session with the coordinator. It claims free buckets up to its
share by making their nodes and releases what is above it, whenever members or claims change. Before the node
of a bucket is deleted its work has ended. When the lease is lost all work is cancelled at once; then the
controller comes back as another member.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from typing import Final

from headrace import __version__
from headrace.controller.buckets.claim_node import BUCKETS, ClaimNode, bucket_path, encode_claim
from headrace.controller.buckets.contract import BucketWork
from headrace.controller.buckets.counters import draw_term, fix_bucket_count
from headrace.controller.buckets.members import Members, read_members
from headrace.controller.buckets.share import plan_share
from headrace.controller.buckets.works import Works
from headrace.controller.store.contract import MetadataStore
from headrace.coordination.contract import Coordinator, Session
from headrace.coordination.member_node import CONTROLLERS, MemberNode, encode_member, member_path
from headrace.errors import (
    HeadraceError,
    MetadataConflictError,
    NodeExistsError,
    NoSuchNodeError,
    SessionExpiredError,
)
from headrace.model.buckets import bucket_of
from headrace.model.data_format import FORMATS_OF_CLUSTERS
from headrace.model.endpoint import Endpoint
from headrace.runtime.clock import Clock
from headrace.runtime.entropy import Entropy
from headrace.runtime.logs import logger
from headrace.runtime.retry import RetryPolicy
from headrace.runtime.supervisor import Supervisor

_log = logger(__name__)

_RETRY: Final = RetryPolicy(initial_s=0.1, multiplier=2.0, delay_max_s=5.0, attempts=1)
_SETTLE_S: Final = 0.02
"""Changes of members and claims that come within this time cost one look."""
_FIRST_LOOK_S: Final = 10.0
"""A start waits this long for the first claims; then it goes on without."""
_ID_BYTES: Final = 8

OnRelease = Callable[[frozenset[int]], None]


@dataclass(slots=True)
class BucketStatistics:
    """Gauges of now: ``owned`` are numbers of buckets, out of ``buckets``; ``controllers`` are alive."""

    controllers: int
    buckets: int
    owned: list[int]


class Buckets:
    """Owns the share of this controller. Used on the controller's loop."""

    def __init__(
        self,
        count: int,
        store: MetadataStore,
        coordinator: Coordinator,
        clock: Clock,
        entropy: Entropy,
        endpoint: Endpoint,
    ) -> None:
        """``count`` 0: as the rows say. ``endpoint`` is where clients find this controller."""
        self.count = count
        self._members = Members({}, {})
        self._store = store
        self._coordinator = coordinator
        self._clock = clock
        self._entropy = entropy
        self._endpoint = endpoint
        self._started_ms = clock.now_ms()
        self._works = Works(entropy)
        self._on_release: list[OnRelease] = []
        self._supervisor = Supervisor("buckets")
        self._session: Session | None = None
        self._ending: Session | None = None
        self._me = ""
        self._terms: dict[int, int] = {}
        self.departure = asyncio.Event()
        """Set, and replaced, when another controller has gone: what it was about to post is lost."""
        self._changed = asyncio.Event()
        self._looked = asyncio.Event()

    def add(self, work: BucketWork) -> None:
        """Run ``work`` on each owned bucket. To be called before :meth:`start`."""
        self._works.add(work)

    def on_release(self, callback: OnRelease) -> None:
        """Call ``callback`` with buckets that are no longer owned, at once and also when they are lost."""
        self._on_release.append(callback)

    async def fix_count(self) -> None:
        """Make the number of buckets that of the store. Raises InvalidArgumentError: it has another."""
        self.count = await fix_bucket_count(self._store, self.count)

    async def start(self) -> None:
        """Be a member from now on; returns after the first look at the others and the first claims."""
        self._supervisor.spawn("ownership", self._run())
        try:
            async with asyncio.timeout(_FIRST_LOOK_S):
                await self._looked.wait()
        except TimeoutError:
            _log.warning("no bucket is owned yet: the coordinator or the store does not answer")

    async def stop(self) -> None:
        """End the work, wherever it is, and release the buckets."""
        await self._supervisor.stop()
        await self._works.stop()
        if self._ending is not None:
            await self._ending.close()

    def publish(self, endpoint: Endpoint) -> None:
        """Show to the other members from now on that clients find this controller at ``endpoint``."""
        self._endpoint = endpoint
        self._changed.set()

    @property
    def endpoint(self) -> Endpoint:
        """Where clients find this controller, as far as that is known."""
        return self._endpoint

    @property
    def session(self) -> Session:
        """The present one. Raises SessionExpiredError: this controller has none now."""
        if self._session is None:
            raise SessionExpiredError("this controller has no session with the coordinator now: ask another")
        return self._session

    def bucket_of(self, scope: str, stream: str) -> int:
        return bucket_of(scope, stream, self.count)

    def owns(self, bucket: int) -> bool:
        """Whether this controller does the work of ``bucket`` now, as far as it knows."""
        return bucket in self._terms and self.is_member()

    def is_member(self) -> bool:
        """Whether this controller takes part in the cluster now, as far as it knows."""
        return self._session is not None and self._session.lease.is_valid

    def owns_stream(self, scope: str, stream: str) -> bool:
        return self.owns(self.bucket_of(scope, stream))

    def owned(self) -> list[int]:
        """Return the buckets for which :meth:`owns` holds."""
        return [bucket for bucket in self._terms if self.owns(bucket)]

    def statistics(self) -> BucketStatistics:
        return BucketStatistics(len(self._members.live), self.count, sorted(self.owned()))

    def term(self, bucket: int) -> int:
        """Return the number of this ownership of ``bucket``: higher than those of all owners before.

        Raises:
            SessionExpiredError: the bucket is not owned.
        """
        if not self.owns(bucket):
            raise SessionExpiredError(f"bucket {bucket} has another owner")
        return self._terms[bucket]

    async def endpoints(self) -> list[Endpoint]:
        """Return where clients find the live controllers: this one first."""
        await self._look_again()
        return self._members.endpoints(self._me, self._endpoint)

    async def mapping(self) -> dict[Endpoint, list[int]]:
        """Return the buckets of each live controller, by where clients find it."""
        await self._look_again()
        return self._members.mapping(self._me, self._endpoint, self.owned())

    async def owner_of(self, bucket: int) -> Endpoint | None:
        """Return where another controller is that works on ``bucket``; None: none is known to."""
        if self.owns(bucket):
            return None
        found = self._members.owner_of(bucket, self._me)
        if found is not None and not found.port:  # it was seen before it had its port
            await self._look_again()
            found = self._members.owner_of(bucket, self._me)
        return found if found is not None and found.port else None

    async def _look_again(self) -> None:
        """Bring up to date what is known of the others, if the coordinator answers."""
        try:
            if self._session is not None:
                self._learn(await read_members(self._session))
        except HeadraceError as error:
            _log.warning("other controllers may have changed unseen", error=str(error))

    def _learn(self, members: Members) -> None:
        gone = self._members.live.keys() - members.live.keys() - {self._me}
        self._members = members
        if gone:
            departure, self.departure = self.departure, asyncio.Event()
            departure.set()

    # ---------------------------------------------------------------------------------- member

    async def _run(self) -> None:
        failures = 0
        while True:
            try:
                session = await self._coordinator.open()
            except HeadraceError as error:
                failures += 1
                _log.warning("the coordinator is asked again", error=str(error))
                await asyncio.sleep(_RETRY.delay_s(failures, self._entropy.random()))
                continue
            failures = 0
            await self._serve(session)
            _log.warning("the session with the coordinator is over; a new one is begun")
            await asyncio.sleep(_RETRY.delay_s(1, self._entropy.random()))

    async def _serve(self, session: Session) -> None:
        """Be a member until the lease is lost, or until cancelled."""
        self._session = self._ending = session
        self._me = self._entropy.token(_ID_BYTES).hex()
        tasks = [
            self._supervisor.spawn("lease", session.lease.lost.wait()),
            self._supervisor.spawn("share", self._balance(session)),
            self._supervisor.spawn("members", self._follow(session.watch_children(CONTROLLERS))),
            self._supervisor.spawn("claims", self._follow(session.watch_children(BUCKETS))),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            self._session = None
            lost = frozenset(self._terms)
            self._terms.clear()
            self._works.cancel(lost)
            self._released(lost)
            await asyncio.wait(tasks)
            await self._works.stop()
            await session.close()

    async def _follow(self, changes: AsyncIterator[None]) -> None:
        try:
            async for _ in changes:
                self._changed.set()
        except HeadraceError as error:
            _log.debug("a watch ended", error=str(error))

    async def _balance(self, session: Session) -> None:
        """Keep the share; returns when the session is over."""
        failures = 0
        while session.lease.is_valid:
            self._changed.clear()
            try:
                await self._look(session)
            except SessionExpiredError:
                return
            except HeadraceError as error:
                failures += 1
                _log.warning("the share of buckets is computed again", error=str(error))
                await asyncio.sleep(_RETRY.delay_s(failures, self._entropy.random()))
                continue
            failures = 0
            self._looked.set()
            await self._changed.wait()
            await asyncio.sleep(_SETTLE_S)

    async def _look(self, session: Session) -> None:
        """Compare what is with what should be, once."""
        await self._register(session)
        members = await read_members(session)
        if self._me not in members.live:
            raise SessionExpiredError("the node of this controller is gone")
        self._learn(members)
        owners = {bucket: claim.controller for bucket, (claim, _) in members.claims.items()}
        await self._give_up([bucket for bucket in self._terms if owners.get(bucket) != self._me])
        share = plan_share(self._me, members.live.keys(), owners, self.count)
        await self._give_up(share.release)
        for bucket in share.release:
            await session.delete(bucket_path(bucket), members.claims[bucket][1])
        kept = [bucket for bucket, owner in owners.items() if owner == self._me]
        new = {
            bucket: members.claims[bucket][1]
            for bucket in kept
            if bucket not in {*self._terms, *share.release}
        }
        for bucket in share.claim:
            if await self._claim(session, bucket):
                new[bucket] = 0
        if new:
            await self._take(session, new)

    async def _register(self, session: Session) -> None:
        """Make the node of this controller, or bring it up to date."""
        data = encode_member(MemberNode(self._endpoint, self._started_ms, __version__, FORMATS_OF_CLUSTERS))
        present = await session.read(member_path(self._me))
        if present is None:
            await session.create(member_path(self._me), data, ephemeral=True)
        elif present.data != data:
            await session.write(member_path(self._me), data, present.version)

    async def _claim(self, session: Session, bucket: int) -> bool:
        try:
            data = encode_claim(ClaimNode(self._me, 0))
            await session.create(bucket_path(bucket), data, ephemeral=True)
        except NodeExistsError:
            return False  # another one was faster; the watch leads to the next look
        return True

    async def _take(self, session: Session, versions: dict[int, int]) -> None:
        """Begin the work of buckets whose nodes are this controller's, with the given versions."""
        term = await draw_term(self._store)
        data = encode_claim(ClaimNode(self._me, term))
        taken: list[int] = []
        for bucket, version in versions.items():
            try:
                await session.write(bucket_path(bucket), data, version)
            except (NoSuchNodeError, MetadataConflictError):
                self._changed.set()
                continue
            taken.append(bucket)
        if session is self._session and session.lease.is_valid:
            self._terms |= dict.fromkeys(taken, term)
            for bucket in taken:
                self._works.begin(bucket)
            _log.info("buckets are claimed", buckets=len(taken), term=term, owned=len(self._terms))

    async def _give_up(self, buckets: Iterable[int]) -> None:
        """End the work of buckets; it has ended when this returns."""
        given = frozenset(bucket for bucket in buckets if self._terms.pop(bucket, None) is not None)
        if given:
            self._works.cancel(given)
            self._released(given)
            await self._works.end(given)
            _log.info("buckets are released", buckets=len(given), owned=len(self._terms))

    def _released(self, buckets: frozenset[int]) -> None:
        if buckets:
            for callback in self._on_release:
                callback(buckets)
