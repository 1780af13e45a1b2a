"""Containers that start, or do not, on their registry."""

import asyncio
import gc
import weakref

import pytest

from headrace.errors import (
    ContainerOfflineError,
    DataCorruptionError,
    FencedOutError,
    StorageFullError,
    WalWriteError,
)
from headrace.segmentstore.hosting import registry
from headrace.segmentstore.hosting.registry import ContainerRegistry

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
    def __init__(self, count, **errors):
        self.events = []
        self.made = []
        self.errors = {int(name[1:]): list(found) for name, found in errors.items()}
        self.registry = ContainerRegistry(count, self.make, restart_delay_s=0.001, restart_delay_max_s=0.002)

    def make(self, container_id, on_failed):
        container = Container(container_id, on_failed, self.errors.get(container_id, []), self.events)
        self.made.append(container)
        return container

    async def settled(self):
        """The only container runs, or stays offline."""
        async with asyncio.timeout(120):
            await asyncio.sleep(0)
            while not self.registry.running() and self.registry._supervisor.statistics().running:  # noqa: ASYNC110
                await asyncio.sleep(0)  # nobody tells

    def let_stop_hang(self, number):
        """Containers of this number do not stop before the event that is returned is set."""
        answer = asyncio.Event()

        def make(container_id, on_failed):
            container = self.make(container_id, on_failed)
            if container_id == number:
                container.stop = answer.wait
            return container

        self.registry._make = make
        return answer


async def test_a_first_start_on_a_full_disk_is_repeated_until_there_is_space():
    world = World(3, c1=[FULL, FULL, FULL])
    starting = asyncio.ensure_future(world.registry.start())
    seen = set()
    while not starting.done():
        health = world.registry.health()[1]
        seen.add((health.online, health.restarts, health.last_failure, health.waits_for))
        await asyncio.sleep(0)
    await starting
    assert (False, 1, "StorageFullError: no space left while opening the log", SPACE) in seen
    assert {waits_for for online, restarts, _, waits_for in seen if restarts and not online} == {SPACE}
    assert world.registry.health()[1].waits_for == ""
    assert [health.online for health in world.registry.health()] == [True, True, True]
    assert world.registry.health()[1].restarts == 3
    assert world.events.count(("start", 1)) == 4
    assert world.events.count(("stop", 1)) == 3, "each that failed was stopped"
    assert world.events.count(("start", 0)) == world.events.count(("start", 2)) == 1
    await world.registry.stop()
    assert len(world.events) == 2 * len(world.made)


async def test_a_start_on_a_full_disk_is_a_line_when_it_waits_and_one_when_there_is_space(caplog):
    world = World(1, c0=[FULL] * 50)
    await world.registry.start()
    said = [(line.levelname, line.getMessage()) for line in caplog.records if line.levelname != "INFO"]
    assert said == [
        ("ERROR", f"container 0 did not start: StorageFullError: {FULL}; it will when there is"),
        ("WARNING", "container 0 has started: there is space again"),
    ]
    await world.registry.stop()


@pytest.mark.parametrize(
    "error", [DataCorruptionError("damaged"), FencedOutError("taken"), WalWriteError("EIO"), OSError("EIO")]
)
async def test_any_other_failure_of_a_first_start_is_raised_and_stops_the_others(error):
    world = World(3, c1=[FULL, error])
    with pytest.raises(type(error)):
        await world.registry.start()
    assert world.registry.running() == []
    begun = [("start", 0), ("start", 1), ("start", 1), ("start", 2)]
    assert sorted(world.events) == sorted(begun + [("stop", number) for _, number in begun])


async def test_containers_start_side_by_side_but_not_all_at_once():
    world = World(3 * registry.STARTS_MAX)
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

    world.registry._make = lambda container_id, on_failed: Slow(container_id, on_failed, [], world.events)
    await world.registry.start()
    assert most == registry.STARTS_MAX
    assert sorted(world.events) == [("start", number) for number in range(3 * registry.STARTS_MAX)]
    assert all(found.online for found in world.registry.health())
    await world.registry.stop()


async def test_a_start_that_fails_waits_for_those_beside_it_before_all_are_stopped():
    world = World(3, c1=[DataCorruptionError("damaged")])
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

    world.registry._make = lambda container_id, on_failed: Slow(
        container_id, on_failed, world.errors.get(container_id, []), world.events
    )
    with pytest.raises(DataCorruptionError, match="damaged"):
        await world.registry.start()
    assert sorted(given_up) == [0, 2]
    for number in range(3):
        assert world.events.count(("start", number)) == world.events.count(("stop", number)) == 1


async def test_a_start_that_waits_for_space_ends_when_it_is_cancelled_and_leaves_nothing_running():
    world = World(2, c1=[FULL] * 10**6)
    starting = asyncio.ensure_future(world.registry.start())
    while world.registry.health()[1].restarts < 3:  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert world.registry.running() == []
    for number in range(2):
        assert world.events.count(("start", number)) == world.events.count(("stop", number))
    await world.registry.stop()


@pytest.mark.parametrize(
    ("error", "restarts"), [(DataCorruptionError("x"), 0), (FencedOutError("x"), 0), (WalWriteError("x"), 1)]
)
async def test_a_container_that_ends_is_started_again_unless_that_could_bury_or_fight(error, restarts):
    world = World(1)
    await world.registry.start()
    container = world.made[0]
    container.on_failed(container, error)
    with pytest.raises(ContainerOfflineError):
        world.registry.get("s/a")
    await world.settled()
    assert len(world.made) == 1 + restarts
    assert world.registry.health()[0].restarts == restarts
    assert type(error).__name__ in world.registry.health()[0].last_failure
    await world.registry.stop()


async def test_the_process_is_notified_when_every_container_was_taken_over_and_not_before():
    told = []
    world = World(3)
    world.registry = ContainerRegistry(3, world.make, restart_delay_s=0.001, on_taken_over=told.append)
    await world.registry.start()
    for number, error in ((1, FencedOutError("x")), (0, WalWriteError("EIO")), (2, FencedOutError("x"))):
        world.made[number].on_failed(world.made[number], error)
    async with asyncio.timeout(120):
        while len(world.made) < 4 or len(world.registry.running()) < 1:  # noqa: ASYNC110
            await asyncio.sleep(0.001)  # nobody tells
        assert told == []
        world.made[3].on_failed(world.made[3], FencedOutError("rebuilt elsewhere"))
        while not told:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    [error] = told
    assert isinstance(error, FencedOutError)
    assert "all containers were taken over" in str(error)
    assert "rebuilt elsewhere" in str(error)
    await world.registry.stop()


async def test_a_container_held_up_by_a_full_disk_says_so_while_it_starts_and_while_it_runs():
    world = World(registry.STARTS_MAX + 1)
    going_on = asyncio.Event()

    class HeldUp(Container):
        waits_for_space = True

        async def start(self):
            await going_on.wait()

    world.registry._make = lambda container_id, on_failed: HeldUp(container_id, on_failed, [], world.events)
    starting = asyncio.ensure_future(world.registry.start())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert [(found.online, found.waits_for) for found in world.registry.health()] == [
        *[(False, SPACE)] * registry.STARTS_MAX,
        (False, "other containers, which start first"),
    ]
    going_on.set()
    await starting
    assert all(found.waits_for == SPACE for found in world.registry.health())
    world.registry.running()[0].waits_for_space = False
    assert [found.waits_for for found in world.registry.health()].count("") == 1
    await world.registry.stop()


async def test_one_that_cannot_stop_keeps_no_other_from_it():
    world = World(3)
    await world.registry.start()
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
        await world.registry.stop()
    assert stopped == [0, 2]
    await world.registry.stop()


async def test_containers_stop_side_by_side():
    world = World(3)
    await world.registry.start()
    together = []

    async def stop(container):
        together.append(container.container_id)
        while len(together) < 3:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0)

    for container in world.made:
        container.stop = lambda container=container: stop(container)
    async with asyncio.timeout(120):
        await world.registry.stop()


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
    await world.registry.start()
    world.errors[0] = [WalWriteError("EIO"), WalWriteError("EIO")]

    def make(container_id, on_failed):
        container = EndingContainer(container_id, on_failed, world.errors[0], world.events)
        container.consequence = consequence
        world.made.append(container)
        return container

    world.registry._make = make
    world.made[0].on_failed(world.made[0], WalWriteError("first"))
    async with asyncio.timeout(120):
        while not world.registry.running():
            running = world.events.count(("start", 0)) - world.events.count(("stop", 0))
            assert running <= 1, "two owners in one process fence each other"
            await asyncio.sleep(0)
    assert world.registry.running() == [world.made[-1]]
    assert len(world.made) == 4
    await world.registry.stop()
    assert world.events.count(("start", 0)) == world.events.count(("stop", 0)) == 4


async def test_damage_found_by_a_part_while_its_container_starts_is_what_the_start_is_refused_for():
    world = World(1, c0=[DataCorruptionError("a chunk is missing")])

    def make(container_id, on_failed):
        container = EndingContainer(container_id, on_failed, world.errors[0], world.events)
        container.consequence = ContainerOfflineError("not running here now")
        return container

    world.registry._make = make
    with pytest.raises(DataCorruptionError, match="a chunk is missing"):
        await world.registry.start()
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
    await world.registry.start()
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

    world.registry._make = make_failing
    world.made[0].on_failed(world.made[0], WalWriteError("first"))
    await world.settled()
    assert len(world.made) == (2 if stays_offline else 3)
    assert bool(world.registry.running()) is not bool(stays_offline)
    assert (stays_offline or "refusal") in world.registry.health()[0].last_failure
    await world.registry.stop()


async def test_a_container_that_cannot_even_stop_is_started_again():
    world = World(1)
    await world.registry.start()

    async def fail():
        raise OSError("EIO")

    world.made[0].stop = fail
    world.made[0].on_failed(world.made[0], WalWriteError("EIO"))
    async with asyncio.timeout(120):
        while not world.registry.running():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0)
    assert world.registry.running() == [world.made[1]]
    await world.registry.stop()


@pytest.mark.parametrize("turns", range(4))
async def test_a_container_that_failed_just_before_the_stop_is_stopped_to_its_end(turns):
    world = World(2)
    await world.registry.start()
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
    await world.registry.stop()
    assert ended == [failed], "its log, its tasks and its threads are still there"


async def test_whoever_stops_too_waits_until_all_are_stopped():
    world = World(1)
    await world.registry.start()
    going_on = asyncio.Event()
    ended = []

    async def stop():
        await going_on.wait()
        ended.append(True)

    world.made[0].stop = stop
    first = asyncio.ensure_future(world.registry.stop())
    second = asyncio.ensure_future(world.registry.stop())
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

    world.registry._make = make
    starting = asyncio.ensure_future(world.registry.start())
    while ("start", 1) not in world.events:  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0)
    await world.registry.stop()
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
        world.registry._make = make
        with pytest.raises(DataCorruptionError, match="a record is damaged"):
            await world.registry.start()
        return
    await world.registry.start()
    world.registry._make = make
    world.made[0].on_failed(world.made[0], WalWriteError("EIO"))
    async with asyncio.timeout(120):
        while len(world.made) < 6 and world.registry._supervisor.statistics().running:  # noqa: ASYNC110
            await asyncio.sleep(0)
    assert len(world.made) == 2, "it was started again and again"
    assert "DataCorruptionError" in world.registry.health()[0].last_failure
    await world.registry.stop()


async def test_a_full_disk_is_waited_for_although_the_stop_behind_it_failed():
    world = World(1, c0=[FULL])
    make = world.make

    def make_failing(container_id, on_failed):
        container = make(container_id, on_failed)
        if len(world.made) == 1:

            async def stop():
                raise WalWriteError("closing the log failed: ENOSPC")

            container.stop = stop
        return container

    world.registry._make = make_failing
    await world.registry.start()
    assert world.registry.health()[0].online
    await world.registry.stop()


async def test_the_pause_grows_for_a_container_that_fails_right_behind_each_start(monkeypatch):
    """It starts, meets what it failed of, and ends: every start writes a file, and reads the whole log."""
    pauses = []
    sleep = asyncio.sleep

    async def note(delay_s):
        if delay_s:
            pauses.append(delay_s)
        await sleep(0)

    monkeypatch.setattr(registry.asyncio, "sleep", note)

    class Failing(Container):
        async def start(self):
            asyncio.get_running_loop().call_soon(
                asyncio.get_running_loop().call_soon, self.on_failed, self, WalWriteError("a bug")
            )

    world = World(1)
    world.registry._make = lambda container_id, on_failed: Failing(container_id, on_failed, [], world.events)
    world.registry._delay_s = 0.2
    world.registry._delay_max_s = 30.0
    await world.registry.start()
    async with asyncio.timeout(120):
        while len(pauses) < 12:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0)
    await world.registry.stop()
    assert pauses[:4] == [0.2, 0.4, 0.8, 1.6]


async def test_a_container_that_ran_well_is_started_again_soon(monkeypatch):
    pauses, now = [], 1000.0
    sleep = asyncio.sleep

    async def note(delay_s):
        if delay_s:
            pauses.append(delay_s)
        await sleep(0)

    monkeypatch.setattr(registry.asyncio, "sleep", note)
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
    world = World(1)
    world.registry._delay_s = 0.2
    world.registry._delay_max_s = 30.0
    await world.registry.start()
    for ran_s in (1, 29, 31, 3600, 1, 1, 30):
        now += ran_s
        world.made[-1].on_failed(world.made[-1], WalWriteError("EIO"))
        while not world.registry.running():
            await sleep(0)
    await world.registry.stop()
    assert pauses == [0.2, 0.4, 0.2, 0.2, 0.4, 0.8, 0.2]


async def test_a_stop_does_not_wait_for_ever_for_a_container_that_does_not_end(caplog):
    world = World(3)
    world.registry._stop_timeout_s = 0.05
    await world.registry.start()
    answer = asyncio.Event()
    world.made[1].stop = answer.wait
    async with asyncio.timeout(120):
        await world.registry.stop()
    assert world.registry.is_stalled
    assert "the log of container 1 is stalled" in caplog.text
    assert [event for event in world.events if event[0] == "stop"] == [("stop", 0), ("stop", 2)]
    answer.set()
    await world.registry.stop()
    assert not world.registry.is_stalled


async def test_each_container_that_ends_gives_the_others_more_time():
    world = World(6)
    world.registry._stop_timeout_s = 0.2
    await world.registry.start()
    for number, container in enumerate(world.made):
        container.stop = lambda number=number: asyncio.sleep(0.1 * number)
    await world.registry.stop()
    assert not world.registry.is_stalled


async def test_a_start_that_is_given_up_does_not_wait_for_ever_for_what_it_began():
    world = World(2)
    world.registry._stop_timeout_s = 0.05
    answer = asyncio.Event()
    make = world.make

    def make_hanging(container_id, on_failed):
        container = make(container_id, on_failed)
        container.start = container.stop = answer.wait
        return container

    world.registry._make = make_hanging
    starting = asyncio.ensure_future(world.registry.start())
    await asyncio.sleep(0)
    starting.cancel()
    async with asyncio.timeout(120):
        with pytest.raises(asyncio.CancelledError):
            await starting
    assert world.registry.is_stalled
    answer.set()
    await world.registry.stop()


@pytest.mark.parametrize("error", [WalWriteError("EIO"), FULL])
async def test_a_first_start_that_fails_does_not_wait_for_ever_for_a_log_that_hangs(error, caplog):
    world = World(2, c1=[error])
    world.registry._stop_timeout_s = 0.02
    answer = world.let_stop_hang(1)
    async with asyncio.timeout(120):
        with pytest.raises(type(error)):
            await world.registry.start()
    assert world.registry.is_stalled
    assert len(world.made) == 2, "nothing is started beside what hangs"
    assert f"container 1 does not end ({type(error).__name__}: {error}): its log is stalled" in caplog.text
    failure = world.registry.health()[1].last_failure
    assert failure.startswith(f"{type(error).__name__}: {error}"), "no matter that nothing had failed before"
    assert "waits for it" not in failure
    answer.set()
    await world.registry.stop()
    assert not world.registry.is_stalled


async def test_a_first_start_that_fails_waits_once_for_a_log_that_hangs():
    world = World(1, c0=[WalWriteError("EIO")])
    world.registry._stop_timeout_s = 10
    answer = world.let_stop_hang(0)
    loop = asyncio.get_running_loop()
    before = loop.time()
    with pytest.raises(WalWriteError):
        await world.registry.start()
    assert 10 <= loop.time() - before < 15
    answer.set()
    await world.registry.stop()
    assert not world.registry.is_stalled


async def test_a_restart_waits_for_a_log_that_hangs_and_tells_so():
    world = World(1)
    world.registry._stop_timeout_s = 0.02
    await world.registry.start()
    answer = asyncio.Event()
    world.made[0].stop = answer.wait
    world.made[0].on_failed(world.made[0], WalWriteError("EIO"))
    async with asyncio.timeout(120):
        while "its log is stalled" not in world.registry.health()[0].last_failure:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0)
        assert len(world.made) == 1
        answer.set()
        while not world.registry.health()[0].online:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0)
    assert world.registry.health()[0].last_failure == "WalWriteError: EIO"
    await world.registry.stop()


async def test_a_restart_ends_with_the_registry_although_its_start_makes_an_error_of_the_cancellation():
    world = World(1)
    await world.registry.start()
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

    world.registry._make = make
    world.made[0].on_failed(world.made[0], WalWriteError("EIO"))
    async with asyncio.timeout(120):
        await begun.wait()
        await world.registry.stop()
    assert len(world.made) == 2
    assert world.events.count(("stop", 0)) == 2
    assert not world.registry._supervisor.statistics().running


async def test_what_the_end_of_the_others_meets_does_not_cover_why_a_start_failed(caplog):
    world = World(2, c1=[FULL, DataCorruptionError("damaged")])
    make = world.make

    def make_failing(container_id, on_failed):
        container = make(container_id, on_failed)
        if container_id == 0:

            async def stop():
                raise WalWriteError("met as it ended")

            container.stop = stop
        return container

    world.registry._make = make_failing
    with pytest.raises(DataCorruptionError, match="damaged"):
        await world.registry.start()
    assert "met as it ended" in caplog.text


async def test_a_start_that_covers_its_cancellation_by_a_full_disk_is_not_repeated():
    world = World(2, c1=[DataCorruptionError("damaged")])
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

    world.registry._make = make_covering
    world.registry._delay_s = 60.0
    async with asyncio.timeout(120):
        with pytest.raises(DataCorruptionError, match="damaged"):
            await world.registry.start()
    assert world.events.count(("start", 0)) == world.events.count(("stop", 0)) == 1


async def test_one_that_fails_while_a_stop_waits_for_something_else_is_ended_too():
    world = World(2)
    await world.registry.start()
    last = asyncio.Event()

    async def restart():
        try:
            await asyncio.Event().wait()
        finally:
            await last.wait()

    world.registry._supervisor.spawn("restart", restart())
    await asyncio.sleep(0)
    stopping = asyncio.ensure_future(world.registry.stop())
    await asyncio.sleep(0)
    world.made[0].on_failed(world.made[0], WalWriteError("EIO"))
    last.set()
    await stopping
    assert sorted(event for event in world.events if event[0] == "stop") == [("stop", 0), ("stop", 1)]


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

    containers = ContainerRegistry(1, make, restart_delay_s=0.001, restart_delay_max_s=0.001)
    await containers.start()
    containers.running()[0].fail()
    async with asyncio.timeout(60):
        while not containers.running():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0)
    await containers.stop()
    assert left == [0] * 5, "when the next one is made"
