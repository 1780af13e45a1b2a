"""Controllers that die: after a number of durable effects, nothing they do has any effect any more."""

import asyncio

from headrace.controller.store.rows.stream_row import StreamState
from headrace.controller.streams.cuts import segments_before
from headrace.controller.workflows.abort_txn import shadow_segments

_STORE_EFFECTS = {"update", "create_table", "delete_table"}
_SEGMENT_EFFECTS = {
    "create_segment",
    "delete_segment",
    "seal_segment",
    "truncate_segment",
    "update_policy",
    "merge_batch",
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

    async def lead(self, call, is_effect):
        if self.over.is_set():
            await asyncio.Event().wait()  # the dead wait for ever
        if self.left == 0 and is_effect:
            self.over.set()
            await asyncio.Event().wait()
        result = await call()
        if is_effect and self.left is not None:
            self.left -= 1
            if self.left == 0:
                self.over.set()
                await asyncio.Event().wait()
        return result


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


def mortal_controller(world, life, **settings):
    """Make a controller that lives ``life``."""
    return world.controller(
        store=Mortal(world.store, life, _STORE_EFFECTS),
        segments=Mortal(world.segments, life, _SEGMENT_EFFECTS),
        **settings,
    )


async def idle(controller, timeout_s=20):
    """Wait until the controller has nothing left to do."""
    async with asyncio.timeout(timeout_s):
        quiet = 0
        while quiet < 3:
            await asyncio.sleep(0)
            quiet = quiet + 1 if controller.is_idle() else 0


async def every_death(world_factory, prepare, act, settle, check):
    """Let a controller die after every single durable effect of ``act``, and its successor go on.

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
        deaths += 1
        assert deaths < 500


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
    assert row.state in {StreamState.ACTIVE, StreamState.SEALED}, row.state
    assert not row.deleting
    assert row.scale is None
    history = await stream.history()
    history.check()
    gone = set() if row.truncation is None else segments_before(history, dict(row.truncation))
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
