"""Controllers that die: after a number of durable effects, nothing they do has any effect any more."""

import asyncio
import functools

from headrace.controller.store.rows.stream_row import NO_WANTS, StreamState
from headrace.controller.workflows.abort_txn import shadow_segments
from headrace.errors import (
    ConnectionLostError,
    ContainerOfflineError,
    OverloadError,
    OwnershipError,
    UnknownOutcomeError,
)
from headrace.testing.simulation import simulate
from tests.effort import stride
from tests.unit.controller.streams.history_model import before, read_history

_STORE_EFFECTS = {"update", "create_table", "delete_table"}
_SEGMENT_EFFECTS = {
    "create_segment",
    "delete_segment",
    "delete_segments",
    "seal_segment",
    "truncate_segment",
    "update_policy",
    "merge_batch",
    "append",
    "update_attribute",
    "create_table",
    "delete_table",
    "table_update",
    "table_remove",
}


class Life:
    """Ends after ``effects`` durable effects; the reply of the last one is lost."""

    def __init__(self, effects=None):
        self.left = effects
        self.over = asyncio.Event()
        self.at_end = []

    def end(self):
        self.over.set()
        for callback in self.at_end:
            callback()

    async def lead(self, call, is_effect):
        if self.over.is_set():
            await asyncio.Event().wait()  # the dead wait for ever
        if self.left == 0 and is_effect:
            self.end()
            await asyncio.Event().wait()
        result = await call()
        if is_effect and self.left is not None:
            self.left -= 1
            if self.left == 0:
                self.end()
                await asyncio.Event().wait()
        return result


class Misfortune:
    """One durable effect, the ``n``-th, is refused or loses its reply; the controller lives on."""

    def __init__(self, n, *, effect_happens):
        self.left = n
        self.effect_happens = effect_happens
        self.struck = False

    async def lead(self, call, is_effect):
        if not is_effect or self.struck:
            return await call()
        if self.left > 0:
            self.left -= 1
            return await call()
        self.struck = True
        if self.effect_happens:
            await call()
            raise ConnectionLostError("the reply was lost")
        raise ContainerOfflineError("the container moves")


class Mortal:
    """A store or segment stores, as one mortal controller reaches them."""

    def __init__(self, target, life, effects):
        self._target = target
        self._life = life
        self._effects = effects

    def __getattr__(self, name):
        method = getattr(self._target, name)
        if not asyncio.iscoroutinefunction(method):
            return method

        async def call(*args, **kwargs):
            return await self._life.lead(lambda: method(*args, **kwargs), name in self._effects)

        return call


def simulated(test):
    """Run an async test in virtual time: waiting costs nothing, and what is ready runs in any order."""

    @functools.wraps(test)
    def run(*args, **kwargs):
        simulate(1, lambda _: test(*args, **kwargs), limit_s=1e6)

    return run


def mortal_controller(world, life, **settings):
    """Make a controller that lives ``life``; its session expires when that is over."""
    controller = world.controller(
        store=Mortal(world.store, life, _STORE_EFFECTS),
        segments=Mortal(world.segments, life, _SEGMENT_EFFECTS),
        **settings,
    )
    if isinstance(life, Life):
        life.at_end.append(lambda: world.expire(controller))
    return controller


async def idle(controller):
    """Wait until the controller has nothing left to do."""
    async with asyncio.timeout(600):
        while not controller.is_idle():  # noqa: ASYNC110 - time is virtual
            await asyncio.sleep(0.001)


async def every_death(world_factory, prepare, act, settle, check):
    """Let a controller die after every single durable effect of ``act``, and its successor go on.

    Or after each fourth one, in a run that tries little.

    ``prepare(controller)`` and ``settle(controller, state)`` run on immortal controllers before and after;
    ``check(world, controller, state)`` judges the end. Returns the number of deaths.
    """
    deaths = 0
    while True:
        world = world_factory()
        async with world.running() as controller:
            state = await prepare(controller)
            await idle(controller)
        life = Life(deaths)
        controller = mortal_controller(world, life)
        starting = asyncio.ensure_future(controller.start())
        acting = asyncio.ensure_future(_act(starting, act, controller, state))
        over = asyncio.ensure_future(life.over.wait())
        await asyncio.wait([acting, over], return_when=asyncio.FIRST_COMPLETED)
        survived = acting.done() and not life.over.is_set()
        if survived:
            acting.result()
        for task in (starting, acting, over):
            task.cancel()
        await asyncio.gather(starting, acting, over, return_exceptions=True)
        life.over.set()
        await controller.stop()
        async with world.running() as successor:
            await idle(successor)
            await settle(successor, state)
            await idle(successor)
            await check_world(world, successor)
            await check(world, successor, state)
        if survived:
            return deaths
        deaths += stride(1)
        assert deaths < 500


async def every_misfortune(world_factory, prepare, act, check):
    """Like :func:`every_death`, but one call fails, the controller goes on, and callers repeat theirs."""
    fates = 0
    for effect_happens in (False, True):
        n = 0
        while True:
            world = world_factory()
            async with world.running() as controller:
                state = await prepare(controller)
                await idle(controller)
            fate = Misfortune(n, effect_happens=effect_happens)
            controller = mortal_controller(world, fate)
            await _repeated(controller.start)
            try:
                await _repeated(lambda controller=controller, state=state: act(controller, state))
                await idle(controller)
                struck, fate.struck = fate.struck, True
                await check_world(world, controller)
                await check(world, controller, state)
            finally:
                await controller.stop()
            if not struck:
                break
            n += stride(1)
            fates += stride(1)
            assert n < 500
    return fates


async def _repeated(call):
    for _ in range(5):
        try:
            return await call()
        except (OwnershipError, OverloadError, UnknownOutcomeError):
            continue
    raise AssertionError("it never succeeds")


async def _act(starting, act, controller, state):
    await starting
    await act(controller, state)
    await idle(controller)


async def check_world(world, controller):
    """Assert that rows and segments agree: nothing missing, nothing left over, nothing in between."""
    world.store.check()
    expected = set()
    unfinished = []
    for scope in await controller.context.scopes.all():
        token = b""
        while True:
            streams, token = await controller.context.directory.page(scope.name, token, 100)
            if not streams:
                break
            for name, _ in streams:
                stream = await controller.context.directory.get(scope.name, name)
                expected |= await _check_stream(world, controller, stream)
                unfinished += await controller.context.registry.all_of(stream.uid)
    present = set(world.segments.segments)
    assert present == expected, (present - expected, expected - present)
    assert controller.transactions.statistics()["COMMITTING"] == 0
    assert controller.transactions.statistics()["ABORTING"] == 0


async def _check_stream(world, controller, stream):
    row = stream.row
    row.check()
    assert row.state in {StreamState.ACTIVE, StreamState.SEALED}, (stream.full_name, row.state)
    assert not row.deleting
    assert row.scale is None
    assert row.wants == NO_WANTS
    history = await read_history(stream)
    history.check()
    gone = set() if row.truncation is None else before(history, dict(row.truncation))
    for segment_id, offset in row.truncation or ():
        assert offset < 0 or world.segments.segments[stream.segment(segment_id)].start_offset == offset
    expected = set()
    for segment in history.segments():
        if segment.segment_id in gone:
            continue
        name = stream.segment(segment.segment_id)
        expected.add(name)
        active = row.state is StreamState.ACTIVE and row.epoch.find(segment.segment_id) is not None
        assert world.segments.segments[name].sealed != active, name
    for txn in await controller.context.registry.all_of(stream.uid):
        expected |= set(await shadow_segments(stream, txn.txn_id))
    return expected
