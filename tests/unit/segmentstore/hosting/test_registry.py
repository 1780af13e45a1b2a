"""Containers that start, or do not, on their registry."""

import asyncio
import gc
import weakref

import pytest

from headrace.errors import (
    ClosedError,
    ContainerOfflineError,
    DataCorruptionError,
    FencedOutError,
    StorageFullError,
    WalWriteError,
)
from headrace.segmentstore.hosting.assignment import STARTS_MAX, ContainerAssignment
from headrace.segmentstore.hosting.registry import ContainerRegistry
from tests.given_containers import give_all

FULL = StorageFullError("no space left while opening the log")
SPACE = "space on the disk of the log"


class Container:
    """Meets what ``errors`` says, one at each start; counts."""

    waits_for_space = False

    def __init__(self, container_id, on_failed, errors, events):
        self.container_id = container_id
        self.on_failed = on_failed
        self.errors = errors
        self.events = events

    async def start(self):
        self.events.append(("start", self.container_id))
        await asyncio.sleep(0)
        if self.errors:
            raise self.errors.pop(0)

    async def stop(self):
        self.events.append(("stop", self.container_id))
        await asyncio.sleep(0)


class World:
    """``make_container``: replaced by tests that need others; ``settings``: of the assignment."""

    def __init__(self, count, errors=(), **settings):
        self.events = []
        self.made = []
        self.errors = {number: list(found) for number, found in dict(errors).items()}
        self.make_container = self.make
        self.fenced = []
        self.registry = ContainerRegistry(count)
        pauses = {"restart_delay_s": 0.001, "restart_delay_max_s": 0.002}
        self.assignment = ContainerAssignment(
            self.registry,
            lambda number, on_failed: self.make_container(number, on_failed),  # noqa: PLW0108 - that of then
            on_fenced=lambda number, error: self.fenced.append((number, str(error))),
            **pauses | settings,
        )

    async def give_all(self):
        await give_all(self.assignment, self.registry.container_count)

    def make(self, container_id, on_failed, kind=Container):
        container = kind(container_id, on_failed, self.errors.get(container_id, []), self.events)
        self.made.append(container)
        return container

    def make_of(self, kind):
        """Containers are of this class from now on."""
        self.make_container = lambda container_id, on_failed: self.make(container_id, on_failed, kind)

    def fail(self, number, error):
        """The newest container ends by itself."""
        self.made[number].on_failed(self.made[number], error)

    @property
    def health(self):
        return self.registry.health()

    def is_online(self, number=0):
        return self.health[number].online

    def let_stop_hang(self, number):
        """Containers of this number do not stop before the event that is returned is set."""
        answer = asyncio.Event()

        def make(container_id, on_failed):
            container = self.make(container_id, on_failed)
            if container_id == number:
                container.stop = answer.wait
            return container

        self.make_container = make
        return answer


async def until(condition, step_s=0.0):
    async with asyncio.timeout(120):
        while not condition():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(step_s)


async def test_a_first_start_on_a_full_disk_is_repeated_until_there_is_space():
    world = World(3, {1: [FULL, FULL, FULL]})
    starting = asyncio.ensure_future(world.give_all())
    seen = set()
    while not starting.done():
        health = world.health[1]
        seen.add((health.online, health.restarts, health.last_failure, health.waits_for))
        await asyncio.sleep(0)
    await starting
    assert (False, 1, "StorageFullError: no space left while opening the log", SPACE) in seen
    assert {waits_for for online, restarts, _, waits_for in seen if restarts and not online} == {SPACE}
    assert world.health[1].waits_for == ""
    assert [health.online for health in world.health] == [True, True, True]
    assert world.health[1].restarts == 3
    assert world.events.count(("start", 1)) == 4
    assert world.events.count(("stop", 1)) == 3, "each that failed was stopped"
    assert world.events.count(("start", 0)) == world.events.count(("start", 2)) == 1
    await world.assignment.take_all()
    assert len(world.events) == 2 * len(world.made)


async def test_a_start_on_a_full_disk_is_a_line_when_it_waits_and_one_when_there_is_space(caplog):
    world = World(1, {0: [FULL] * 50})
    await world.give_all()
    said = [(line.levelname, line.getMessage()) for line in caplog.records if line.levelname != "INFO"]
    assert said == [
        ("ERROR", f"container 0 did not start: StorageFullError: {FULL}; it will when there is"),
        ("WARNING", "container 0 has started: there is space again"),
    ]
    await world.assignment.take_all()


@pytest.mark.parametrize(
    "error", [DataCorruptionError("damaged"), FencedOutError("taken"), WalWriteError("EIO"), OSError("EIO")]
)
async def test_any_other_failure_of_a_first_start_is_raised_and_stops_the_others(error):
    world = World(3, {1: [FULL, error]})
    with pytest.raises(type(error)):
        await world.give_all()
    assert world.registry.running() == []
    begun = [("start", 0), ("start", 1), ("start", 1), ("start", 2)]
    assert sorted(world.events) == sorted(begun + [("stop", number) for _, number in begun])


async def test_containers_start_side_by_side_but_not_all_at_once():
    world = World(3 * STARTS_MAX)
    open_now, most = 0, 0

    class Slow(Container):
        async def start(self):
            nonlocal open_now, most
            open_now += 1
            most = max(most, open_now)
            for _ in range(1 + self.container_id % 3):
                await asyncio.sleep(0)
            open_now -= 1
            await super().start()

    world.make_container = lambda container_id, on_failed: Slow(container_id, on_failed, [], world.events)
    await world.give_all()
    assert most == STARTS_MAX
    assert sorted(world.events) == [("start", number) for number in range(3 * STARTS_MAX)]
    assert all(found.online for found in world.health)
    await world.assignment.take_all()


async def test_a_start_that_fails_waits_for_those_beside_it_before_all_are_stopped():
    world = World(3, {1: [DataCorruptionError("damaged")]})
    given_up = []

    class Slow(Container):
        async def start(self):
            if self.container_id == 1:
                return await super().start()
            self.events.append(("start", self.container_id))
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                given_up.append(self.container_id)

    world.make_container = lambda container_id, on_failed: Slow(
        container_id, on_failed, world.errors.get(container_id, []), world.events
    )
    with pytest.raises(DataCorruptionError, match="damaged"):
        await world.give_all()
    assert sorted(given_up) == [0, 2]
    for number in range(3):
        assert world.events.count(("start", number)) == world.events.count(("stop", number)) == 1


async def test_a_start_that_waits_for_space_ends_when_it_is_cancelled_and_leaves_nothing_running():
    world = World(2, {1: [FULL] * 10**6})
    starting = asyncio.ensure_future(world.give_all())
    while world.health[1].restarts < 3:  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert world.registry.running() == []
    for number in range(2):
        assert world.events.count(("start", number)) == world.events.count(("stop", number))
    await world.assignment.take_all()


@pytest.mark.parametrize(
    ("error", "restarts"), [(DataCorruptionError("x"), 0), (FencedOutError("x"), 0), (WalWriteError("x"), 1)]
)
async def test_a_container_that_ends_is_started_again_unless_that_could_bury_or_fight(error, restarts):
    world = World(1)
    await world.give_all()
    container = world.made[0]
    container.on_failed(container, error)
    with pytest.raises(ContainerOfflineError):
        world.registry.get("s/a")
    await asyncio.sleep(60)  # virtual: longer than all pauses
    assert len(world.made) == 1 + restarts
    assert world.health[0].restarts == restarts
    assert type(error).__name__ in world.health[0].last_failure
    await world.assignment.take_all()


async def test_a_container_that_was_taken_over_is_released_and_whoever_gave_it_is_notified_once():
    world = World(3)
    await world.give_all()
    world.fail(0, WalWriteError("EIO"))
    world.fail(1, FencedOutError("a newer owner"))
    world.fail(2, DataCorruptionError("damaged"))
    await asyncio.sleep(60)  # virtual: longer than all pauses
    assert world.fenced == [(1, "a newer owner")]
    assert [found.online for found in world.health] == [True, False, False]
    world.fail(3, FencedOutError("rebuilt elsewhere"))
    await asyncio.sleep(60)
    assert world.fenced[1:] == [(0, "rebuilt elsewhere")]
    assert "FencedOutError: rebuilt elsewhere" in world.health[0].last_failure
    await world.assignment.take_all()


async def test_a_container_held_up_by_a_full_disk_says_so_while_it_starts_and_while_it_runs():
    world = World(STARTS_MAX + 1)
    going_on = asyncio.Event()

    class HeldUp(Container):
        waits_for_space = True

        async def start(self):
            await going_on.wait()

    world.make_container = lambda container_id, on_failed: HeldUp(container_id, on_failed, [], world.events)
    starting = asyncio.ensure_future(world.give_all())
    await until(lambda: world.health[-1].waits_for)
    assert [(found.online, found.waits_for) for found in world.health] == [
        *[(False, SPACE)] * STARTS_MAX,
        (False, "other containers, which start first"),
    ]
    going_on.set()
    await starting
    assert all(found.waits_for == SPACE for found in world.health)
    world.registry.running()[0].waits_for_space = False
    assert [found.waits_for for found in world.health].count("") == 1
    await world.assignment.take_all()


async def test_one_that_cannot_stop_keeps_no_other_from_it():
    world = World(3)
    await world.give_all()
    stopped = []

    def make_stop(container):
        async def stop():
            if container.container_id == 1:
                raise OSError("the disk is gone")
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            stopped.append(container.container_id)

        return stop

    for container in world.made:
        container.stop = make_stop(container)
    with pytest.raises(OSError, match="the disk is gone"):
        await world.assignment.take_all()
    assert stopped == [0, 2]
    await world.assignment.take_all()


async def test_containers_stop_side_by_side():
    world = World(3)
    await world.give_all()
    together = []

    async def stop(container):
        together.append(container.container_id)
        while len(together) < 3:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0)

    for container in world.made:
        container.stop = lambda container=container: stop(container)
    async with asyncio.timeout(120):
        await world.assignment.take_all()


class EndingContainer(Container):
    """Ends by itself while it starts: some part of it fails before the rest is up."""

    consequence = None
    cause = None

    async def start(self):
        self.events.append(("start", self.container_id))
        await asyncio.sleep(0)
        if self.errors:
            self.on_failed(self, self.errors.pop(0))
            if self.consequence is not None:
                raise self.consequence


@pytest.mark.parametrize("consequence", [None, ContainerOfflineError("not running here now")])
async def test_a_container_that_ends_while_it_starts_again_is_started_by_nobody_else(consequence):
    world = World(1)
    await world.give_all()
    world.errors[0] = [WalWriteError("EIO"), WalWriteError("EIO")]

    def make(container_id, on_failed):
        container = EndingContainer(container_id, on_failed, world.errors[0], world.events)
        container.consequence = consequence
        world.made.append(container)
        return container

    world.make_container = make
    world.fail(0, WalWriteError("first"))
    async with asyncio.timeout(120):
        while not world.registry.running():
            running = world.events.count(("start", 0)) - world.events.count(("stop", 0))
            assert running <= 1, "two owners in one process fence each other"
            await asyncio.sleep(0)
    assert world.registry.running() == [world.made[-1]]
    assert len(world.made) == 4
    await world.assignment.take_all()
    assert world.events.count(("start", 0)) == world.events.count(("stop", 0)) == 4


async def test_damage_found_by_a_part_while_its_container_starts_is_what_the_start_is_refused_for():
    world = World(1, {0: [DataCorruptionError("a chunk is missing")]})

    def make(container_id, on_failed):
        container = EndingContainer(container_id, on_failed, world.errors[0], world.events)
        container.consequence = ContainerOfflineError("not running here now")
        return container

    world.make_container = make
    with pytest.raises(DataCorruptionError, match="a chunk is missing"):
        await world.give_all()
    assert world.registry.running() == []
    assert world.events == [("start", 0), ("stop", 0)]


@pytest.mark.parametrize(
    ("refusal", "met", "stays_offline"),
    [
        (DataCorruptionError("refusal"), WalWriteError("met"), "refusal"),
        (DataCorruptionError("refusal"), FencedOutError("met"), "refusal"),
        (WalWriteError("refusal"), FencedOutError("met"), "met"),
        (WalWriteError("refusal"), StorageFullError("met"), ""),
    ],
)
async def test_what_the_end_of_a_refused_start_meets_does_not_cover_why_it_was_refused(
    refusal, met, stays_offline
):
    """A restart for the latter's sake would bury the damage; but one must not fight another owner either."""
    world = World(1)
    await world.give_all()
    world.errors[0] = [refusal]
    make = world.make

    def make_failing(container_id, on_failed):
        container = make(container_id, on_failed)
        stop = container.stop

        async def fail_then_stop():
            if world.made[1] is container:
                on_failed(container, met)
            await stop()

        container.stop = fail_then_stop
        return container

    world.make_container = make_failing
    world.fail(0, WalWriteError("first"))
    await asyncio.sleep(60)  # virtual: longer than all pauses
    assert len(world.made) == (2 if stays_offline else 3)
    assert bool(world.registry.running()) is not bool(stays_offline)
    assert (stays_offline or "refusal") in world.health[0].last_failure
    await world.assignment.take_all()


async def test_a_container_that_cannot_even_stop_is_started_again():
    world = World(1)
    await world.give_all()

    async def fail():
        raise OSError("EIO")

    world.made[0].stop = fail
    world.fail(0, WalWriteError("EIO"))
    async with asyncio.timeout(120):
        while not world.registry.running():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0)
    assert world.registry.running() == [world.made[1]]
    await world.assignment.take_all()


@pytest.mark.parametrize("turns", range(4))
async def test_a_container_that_failed_just_before_the_stop_is_stopped_to_its_end(turns):
    world = World(2)
    await world.give_all()
    failed = world.made[0]
    ended = []

    async def stop():
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        ended.append(failed)

    failed.stop = stop
    failed.on_failed(failed, WalWriteError("EIO"))
    for _ in range(turns):
        await asyncio.sleep(0)
    await world.assignment.take_all()
    assert ended == [failed], "its log, its tasks and its threads are still there"


async def test_whoever_stops_too_waits_until_all_are_stopped():
    world = World(1)
    await world.give_all()
    going_on = asyncio.Event()
    ended = []

    async def stop():
        await going_on.wait()
        ended.append(True)

    world.made[0].stop = stop
    first = asyncio.ensure_future(world.assignment.take_all())
    second = asyncio.ensure_future(world.assignment.take_all())
    for _ in range(10):
        await asyncio.sleep(0)
    assert not second.done(), "it would close what the container still needs"
    going_on.set()
    await asyncio.gather(first, second)
    assert ended == [True]


async def test_a_stop_during_the_start_leaves_no_container_running():
    world = World(3)
    going_on = asyncio.Event()

    class Slow(Container):
        async def start(self):
            await super().start()
            if self.container_id == 1:
                await going_on.wait()

    def make(container_id, on_failed):
        world.made.append(Slow(container_id, on_failed, [], world.events))
        return world.made[-1]

    world.make_container = make
    starting = asyncio.ensure_future(world.give_all())
    while ("start", 1) not in world.events:  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0)
    await world.assignment.take_all()
    going_on.set()
    await asyncio.wait([starting], timeout=120)
    for number in range(3):
        assert world.events.count(("start", number)) == world.events.count(("stop", number))
    assert world.registry.running() == []


@pytest.mark.parametrize("again", [False, True])
async def test_damage_is_not_forgotten_because_the_stop_behind_it_failed(again):
    """A restart could bury the evidence, so the container must stay offline; and a first start says why."""
    world = World(1)

    def make(container_id, on_failed):
        container = Container(
            container_id, on_failed, [DataCorruptionError("a record is damaged")], world.events
        )

        async def stop():
            raise WalWriteError("closing the log failed: EIO")

        container.stop = stop
        world.made.append(container)
        return container

    if not again:
        world.make_container = make
        with pytest.raises(DataCorruptionError, match="a record is damaged"):
            await world.give_all()
        return
    await world.give_all()
    world.make_container = make
    world.fail(0, WalWriteError("EIO"))
    await asyncio.sleep(60)
    assert len(world.made) == 2, "it was started again and again"
    assert "DataCorruptionError" in world.health[0].last_failure
    await world.assignment.take_all()


async def test_a_full_disk_is_waited_for_although_the_stop_behind_it_failed():
    world = World(1, {0: [FULL]})
    make = world.make

    def make_failing(container_id, on_failed):
        container = make(container_id, on_failed)
        if len(world.made) == 1:

            async def stop():
                raise WalWriteError("closing the log failed: ENOSPC")

            container.stop = stop
        return container

    world.make_container = make_failing
    await world.give_all()
    assert world.health[0].online
    await world.assignment.take_all()


class Timed(Container):
    """Notes when it was made."""

    def __init__(self, *args):
        super().__init__(*args)
        self.made_at = asyncio.get_running_loop().time()


def pauses_of(world, ran_s):
    starts = [container.made_at for container in world.made]
    return [
        round(after - before - ran, 2) for before, after, ran in zip(starts, starts[1:], ran_s, strict=False)
    ]


async def test_the_pause_grows_for_a_container_that_fails_right_behind_each_start():
    """It starts, meets what it failed of, and ends: every start writes a file, and reads the whole log."""

    class Failing(Timed):
        async def start(self):
            loop = asyncio.get_running_loop()
            loop.call_soon(loop.call_soon, self.on_failed, self, WalWriteError("a bug"))

    world = World(1, restart_delay_s=0.2, restart_delay_max_s=30.0)
    world.make_of(Failing)
    await world.give_all()
    await until(lambda: len(world.made) == 9, 0.01)
    await world.assignment.take_all()
    pauses = [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6]
    assert pauses_of(world, [0] * 8) == pauses


async def test_a_container_that_ran_well_is_started_again_soon():
    world = World(1, restart_delay_s=0.2, restart_delay_max_s=30.0)
    world.make_of(Timed)
    await world.give_all()
    terms_s = (1, 29, 31, 3600, 1, 1, 30.01)
    for number, ran_s in enumerate(terms_s):
        await asyncio.sleep(ran_s)
        world.fail(-1, WalWriteError("EIO"))
        await until(lambda made=number + 2: len(world.made) == made and world.is_online(), 0.001)
    await world.assignment.take_all()
    assert pauses_of(world, terms_s) == [0.2, 0.4, 0.2, 0.2, 0.4, 0.8, 0.2]


async def test_a_stop_does_not_wait_for_ever_for_a_container_that_does_not_end(caplog):
    world = World(3, stop_timeout_s=0.05)
    await world.give_all()
    answer = asyncio.Event()
    world.made[1].stop = answer.wait
    async with asyncio.timeout(120):
        await world.assignment.take_all()
    assert world.assignment.is_stalled
    assert "the log of container 1 is stalled" in caplog.text
    assert [event for event in world.events if event[0] == "stop"] == [("stop", 0), ("stop", 2)]
    answer.set()
    await world.assignment.take_all()
    assert not world.assignment.is_stalled


async def test_each_container_that_ends_gives_the_others_more_time():
    world = World(6, stop_timeout_s=0.2)
    await world.give_all()
    for number, container in enumerate(world.made):
        container.stop = lambda number=number: asyncio.sleep(0.1 * number)
    await world.assignment.take_all()
    assert not world.assignment.is_stalled


async def test_a_start_that_is_given_up_does_not_wait_for_ever_for_what_it_began():
    world = World(2, stop_timeout_s=0.05)
    answer = asyncio.Event()
    make = world.make

    def make_hanging(container_id, on_failed):
        container = make(container_id, on_failed)
        container.start = container.stop = answer.wait
        return container

    world.make_container = make_hanging
    starting = asyncio.ensure_future(world.give_all())
    await until(lambda: len(world.made) == 2)
    starting.cancel()
    async with asyncio.timeout(120):
        with pytest.raises(asyncio.CancelledError):
            await starting
    assert world.assignment.is_stalled
    answer.set()
    await world.assignment.take_all()


@pytest.mark.parametrize("error", [WalWriteError("EIO"), FULL])
async def test_a_first_start_that_fails_does_not_wait_for_ever_for_a_log_that_hangs(error, caplog):
    world = World(2, {1: [error]}, stop_timeout_s=0.02)
    answer = world.let_stop_hang(1)
    async with asyncio.timeout(120):
        with pytest.raises(type(error)):
            await world.give_all()
    assert world.assignment.is_stalled
    assert len(world.made) == 2, "nothing is started beside what hangs"
    assert f"container 1 does not end ({type(error).__name__}: {error}): its log is stalled" in caplog.text
    failure = world.health[1].last_failure
    assert failure.startswith(f"{type(error).__name__}: {error}"), "no matter that nothing had failed before"
    assert "waits for it" not in failure
    answer.set()
    await world.assignment.take_all()
    assert not world.assignment.is_stalled


async def test_a_first_start_that_fails_waits_once_for_a_log_that_hangs():
    world = World(1, {0: [WalWriteError("EIO")]}, stop_timeout_s=10)
    answer = world.let_stop_hang(0)
    loop = asyncio.get_running_loop()
    before = loop.time()
    with pytest.raises(WalWriteError):
        await world.give_all()
    assert 10 <= loop.time() - before < 15
    answer.set()
    await world.assignment.take_all()
    assert not world.assignment.is_stalled


async def test_a_restart_waits_for_a_log_that_hangs_and_tells_so():
    world = World(1, stop_timeout_s=0.02)
    await world.give_all()
    answer = asyncio.Event()
    world.made[0].stop = answer.wait
    world.fail(0, WalWriteError("EIO"))
    async with asyncio.timeout(120):
        while "its log is stalled" not in world.health[0].last_failure:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0)
        assert len(world.made) == 1
        answer.set()
        while not world.health[0].online:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0)
    assert world.health[0].last_failure == "WalWriteError: EIO"
    await world.assignment.take_all()


async def test_a_restart_ends_with_the_registry_although_its_start_makes_an_error_of_the_cancellation():
    world = World(1)
    await world.give_all()
    begun = asyncio.Event()

    async def start():
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise WalWriteError("what was begun could not be undone")

    def make(container_id, on_failed):
        container = World.make(world, container_id, on_failed)
        container.start = start
        return container

    world.make_container = make
    world.fail(0, WalWriteError("EIO"))
    async with asyncio.timeout(120):
        await begun.wait()
        await world.assignment.take_all()
    assert len(world.made) == 2
    assert world.events.count(("stop", 0)) == 2
    assert not world.assignment.is_stalled


async def test_what_the_end_of_the_others_meets_does_not_cover_why_a_start_failed():
    world = World(2, {1: [FULL, DataCorruptionError("damaged")]})
    make = world.make

    def make_failing(container_id, on_failed):
        container = make(container_id, on_failed)
        if container_id == 0:

            async def stop():
                raise WalWriteError("met as it ended")

            container.stop = stop
        return container

    world.make_container = make_failing
    with pytest.raises(DataCorruptionError, match="damaged"):
        await world.give_all()
    assert world.registry.running() == []


async def test_a_start_that_covers_its_cancellation_by_a_full_disk_is_not_repeated():
    world = World(2, {1: [DataCorruptionError("damaged")]})
    make = world.make

    def make_covering(container_id, on_failed):
        container = make(container_id, on_failed)
        if container_id == 0:

            async def start():
                world.events.append(("start", 0))
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    raise FULL from None

            container.start = start
        return container

    world.make_container = make_covering
    async with asyncio.timeout(120):
        with pytest.raises(DataCorruptionError, match="damaged"):
            await world.give_all()
    assert world.events.count(("start", 0)) == world.events.count(("stop", 0)) == 1


async def test_one_that_fails_while_a_stop_waits_for_something_else_is_ended_too():
    world = World(2)
    await world.give_all()
    begun, last = asyncio.Event(), asyncio.Event()

    class Slow(Container):
        async def start(self):
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                await last.wait()

    world.make_of(Slow)
    world.fail(1, WalWriteError("EIO"))
    await begun.wait()
    stopping = asyncio.ensure_future(world.assignment.take_all())
    await asyncio.sleep(0)
    world.fail(0, WalWriteError("EIO"))
    last.set()
    await stopping
    stops = [("stop", 0), ("stop", 1), ("stop", 1)]
    assert sorted(event for event in world.events if event[0] == "stop") == stops


@pytest.mark.slow
async def test_nothing_of_what_has_failed_stays_in_memory_while_it_is_started_again():
    """A container is all that it knows of its segments, and what is left of its log."""
    alive = weakref.WeakSet()
    left = []

    class Failing(Container):
        async def start(self):
            alive.add(self)
            await super().start()

        def fail(self):
            try:
                raise WalWriteError("EIO")
            except WalWriteError as error:
                self.on_failed(self, error)

    def make(container_id, on_failed):
        gc.collect()
        left.append(len(alive))
        errors = [StorageFullError("no space left")] if 1 <= len(left) - 1 <= 3 else []
        return Failing(container_id, on_failed, errors, [])

    world = World(1)
    world.make_container = make
    await world.give_all()
    world.registry.running()[0].fail()
    await until(world.registry.running)
    await world.assignment.take_all()
    assert left == [0] * 5, "when the next one is made"


# ---------------------------------------------------------------------- one by one, while others run


async def test_a_container_is_given_taken_and_given_again_while_the_others_run():
    world = World(3)
    await world.assignment.give(1)
    assert [found.online for found in world.health] == [False, True, False]
    await world.assignment.give(0)
    assert await world.assignment.take(1)
    assert [found.online for found in world.health] == [True, False, False]
    assert world.events == [("start", 1), ("start", 0), ("stop", 1)]
    await world.assignment.give(1)
    assert world.registry.running() == [world.made[2], world.made[1]]
    await world.assignment.take_all()
    assert world.registry.running() == []
    for number in range(2):
        assert world.events.count(("start", number)) == world.events.count(("stop", number)) == 1 + number


async def test_what_is_given_twice_runs_once_and_what_is_not_here_can_be_taken():
    world = World(2)
    await asyncio.gather(world.assignment.give(0), world.assignment.give(0))
    await world.assignment.give(0)
    assert world.events == [("start", 0)]
    assert await world.assignment.take(1)
    assert await world.assignment.take(0)
    assert await world.assignment.take(0)
    assert world.events == [("start", 0), ("stop", 0)]


async def test_segments_of_a_container_that_is_taken_are_refused_at_once():
    world = World(1)
    await world.assignment.give(0)
    going_on = asyncio.Event()
    world.made[0].stop = going_on.wait
    taking = asyncio.ensure_future(world.assignment.take(0))
    await asyncio.sleep(0)
    with pytest.raises(ContainerOfflineError):
        world.registry.get("s/a")
    going_on.set()
    assert await taking


async def test_what_is_taken_while_it_starts_is_ended_and_whoever_gave_it_is_notified():
    world = World(1)
    begun = asyncio.Event()

    class Slow(Container):
        async def start(self):
            self.events.append(("start", 0))
            begun.set()
            await asyncio.Event().wait()

    world.make_of(Slow)
    giving = asyncio.ensure_future(world.assignment.give(0))
    await begun.wait()
    assert await world.assignment.take(0)
    with pytest.raises(ClosedError, match="taken away before it ran"):
        await giving
    assert world.events == [("start", 0), ("stop", 0)]
    world.make_of(Container)
    await world.assignment.give(0)
    assert world.is_online()
    await world.assignment.take_all()


async def test_what_is_taken_while_it_waits_for_its_slot_never_starts():
    world = World(STARTS_MAX + 2)
    going_on = asyncio.Event()

    class Slow(Container):
        async def start(self):
            await super().start()
            await going_on.wait()

    world.make_of(Slow)
    starting = [asyncio.ensure_future(world.assignment.give(number)) for number in range(STARTS_MAX + 2)]
    await until(lambda: len(world.events) == STARTS_MAX)
    assert await world.assignment.take(STARTS_MAX)
    going_on.set()
    outcomes = await asyncio.gather(*starting, return_exceptions=True)
    assert [type(outcome).__name__ for outcome in outcomes] == ["NoneType"] * 4 + ["ClosedError", "NoneType"]
    assert ("start", STARTS_MAX) not in world.events
    await world.assignment.take_all()


@pytest.mark.parametrize("first", [True, False])
async def test_what_is_taken_while_it_backs_off_is_not_started_again(first):
    world = World(1, {0: [FULL] if first else []}, restart_delay_s=10.0, restart_delay_max_s=10.0)
    giving = asyncio.ensure_future(world.assignment.give(0))
    if not first:
        await giving
        world.fail(0, WalWriteError("EIO"))
    await asyncio.sleep(5)
    assert world.events == [("start", 0), ("stop", 0)]
    before = asyncio.get_running_loop().time()
    assert await world.assignment.take(0)
    assert asyncio.get_running_loop().time() - before < 1
    await asyncio.sleep(60)
    assert world.events == [("start", 0), ("stop", 0)]
    assert giving.done()
    if first:
        with pytest.raises(ClosedError):
            await giving


async def test_what_is_given_while_its_former_life_ends_starts_when_that_has_ended():
    world = World(2)
    await world.give_all()
    going_on = asyncio.Event()

    async def stop():
        await going_on.wait()
        world.events.append(("stop", 1))

    world.made[1].stop = stop
    taking = asyncio.ensure_future(world.assignment.take(1))
    await asyncio.sleep(0)
    giving = asyncio.ensure_future(world.assignment.give(1))
    await asyncio.sleep(60)
    assert not giving.done()
    assert world.events.count(("start", 1)) == 1
    assert world.health[1].waits_for == "the end of its last term here, which uses its log"
    going_on.set()
    assert await taking
    await giving
    assert [event for event in world.events if event[1] == 1] == [("start", 1), ("stop", 1), ("start", 1)]
    assert world.health[1].waits_for == ""
    await world.assignment.take_all()


async def test_a_log_that_is_stalled_is_told_to_who_takes_and_delays_only_its_own_container(caplog):
    world = World(6, stop_timeout_s=10.0)
    await world.give_all()
    answer = asyncio.Event()
    for container in world.made[:STARTS_MAX]:
        container.stop = answer.wait
    taken = await asyncio.gather(*(world.assignment.take(number) for number in range(STARTS_MAX)))
    assert taken == [False] * STARTS_MAX
    assert "the log of container 1 is stalled" in caplog.text
    giving = [asyncio.ensure_future(world.assignment.give(0)) for _ in range(3)]
    await asyncio.sleep(0)
    assert not await world.assignment.take(0), "what was given meanwhile has ended, and the log is in use"
    for given in giving:
        with pytest.raises(ClosedError):
            await given
    giving = asyncio.ensure_future(world.assignment.give(0))
    assert await world.assignment.take(5)
    await world.assignment.give(5)
    assert not giving.done()
    answer.set()
    await giving
    assert world.events.count(("start", 0)) == 2
    await world.assignment.take_all()
    assert not world.assignment.is_stalled


async def test_starts_that_are_taken_and_do_not_end_keep_no_other_from_starting():
    world = World(STARTS_MAX + 1, stop_timeout_s=1.0)
    answer = asyncio.Event()

    class Hanging(Container):
        async def start(self):
            await answer.wait()

        async def stop(self):
            await answer.wait()

    world.make_of(Hanging)
    giving = [asyncio.ensure_future(world.assignment.give(number)) for number in range(STARTS_MAX)]
    await until(lambda: len(world.made) == STARTS_MAX)
    assert not any(await asyncio.gather(*(world.assignment.take(number) for number in range(STARTS_MAX))))
    await asyncio.gather(*giving, return_exceptions=True)
    world.make_of(Container)
    await world.assignment.give(STARTS_MAX)
    assert world.is_online(STARTS_MAX)
    answer.set()
    await world.assignment.take_all()


@pytest.mark.parametrize("error", [FencedOutError("taken over"), DataCorruptionError("damaged")])
async def test_a_container_that_stays_offline_runs_once_it_is_given_again(error):
    """A fenced one is given again when the cluster decides so; a damaged one, when an operator has acted."""
    world = World(1)
    await world.assignment.give(0)
    world.fail(0, error)
    await asyncio.sleep(60)
    assert not world.is_online()
    assert world.events == [("start", 0), ("stop", 0)]
    if isinstance(error, DataCorruptionError):
        await world.assignment.give(0)
        assert not world.is_online(), "it is here already"
        assert await world.assignment.take(0)
    await world.assignment.give(0)
    assert world.is_online()
    assert world.health[0].last_failure == ""
    await world.assignment.take_all()


async def test_a_give_that_fails_releases_its_container_and_no_other():
    world = World(2, {1: [WalWriteError("EIO")]})
    await world.assignment.give(0)
    with pytest.raises(WalWriteError):
        await world.assignment.give(1)
    assert [found.online for found in world.health] == [True, False]
    assert world.events[-1] == ("stop", 1)
    await world.assignment.give(1)
    assert all(found.online for found in world.health)
    await world.assignment.take_all()


async def test_one_that_does_not_end_in_order_says_so_to_who_takes_it_and_is_free():
    world = World(1)
    await world.assignment.give(0)

    async def stop():
        raise OSError("the disk is gone")

    world.made[0].stop = stop
    with pytest.raises(OSError, match="the disk is gone"):
        await world.assignment.take(0)
    assert await world.assignment.take(0)
    await world.assignment.give(0)
    assert world.is_online()
    await world.assignment.take_all()


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (WalWriteError("EIO"), ["failed", "runs"]),
        (DataCorruptionError("damaged"), ["failed", "stays offline"]),
        (FencedOutError("taken over"), []),
    ],
)
async def test_what_becomes_of_one_that_has_run_is_told(error, told):
    """That it was taken over is told by itself, once it has ended."""
    heard = []

    def hear(hosted):
        ended = "stays offline" if hosted.stays_offline else "failed"
        heard.append("runs" if hosted.running is not None else ended)

    world = World(1, on_change=hear)
    await world.give_all()
    world.fail(0, error)
    await until(lambda: len(heard) == len(told) and (told or world.fenced))
    await world.assignment.take_all()
    assert heard == told
    assert bool(world.fenced) == isinstance(error, FencedOutError)
