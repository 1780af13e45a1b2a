"""``kill -9`` while a server is about what nobody asks for any more: the next start completes all of it."""

import asyncio
import contextlib
from collections import defaultdict

import grpc
import pytest

from headrace.client import (
    ClientConfig,
    RetentionPolicy,
    ScalingPolicy,
    StreamConfiguration,
    StreamCut,
    connect,
)
from headrace.errors import SegmentTruncatedError, StreamBusyError
from headrace.model.key_space import FULL_RANGE, split_evenly
from headrace.rpc.convert import stream_config_to_message, stream_cut_to_message
from headrace.rpc.generated import controller_pb2 as pb
from headrace.rpc.generated.controller_pb2_grpc import ControllerServiceStub
from headrace.rpc.refusals import told_error
from headrace.testing import LocalServer
from tests.effort import examples, soak
from tests.unit.controller.calls import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.usefixtures("clean_end")]

PATIENT = ClientConfig(control_attempts=100)
MANY = 200
"""Segments, so that a scale takes some time."""
ATTEMPTS = 20
"""To kill the server while the scale lasts."""
QUICK = {
    "HEADRACE_SCALING__SAMPLE_S": "0.1",
    "HEADRACE_SCALING__SLOW_S": "0.8",
    "HEADRACE_SCALING__HOT_S": "0.3",
    "HEADRACE_SCALING__COLD_S": "600",
    "HEADRACE_SCALING__COOL_DOWN_S": "0.5",
    "HEADRACE_CONTROLLER__RETENTION__PERIOD_S": "0.05",
}
SPLIT = "segments are scaled for their load"
RETAINED = 20_000


@pytest.fixture
def server(tmp_path):
    with LocalServer(tmp_path, environment=QUICK) as running:
        yield running


async def restart(server):
    await asyncio.to_thread(server.restart)


async def read(client, stream):
    async with client.event_reader("s", stream, end="tail") as reader:
        return [event.data async for event in reader]


class TooLateError(Exception):
    """The stream was free before the server could be killed."""


class Busy:
    """A stream with ten events that is being scaled, and calls about it whose callers die with the server."""

    def __init__(self, client, stub, name):
        self._client = client
        self._stub = stub
        self._name = name
        self._info = pb.StreamInfo(scope="s", stream=name)
        self._calls = []
        self.configurations = [
            StreamConfiguration(scaling=ScalingPolicy.fixed(MANY), tags=frozenset({tag})) for tag in "ab"
        ]
        self.cuts = []
        self.chosen = 0

    async def make(self):
        client, name = self._client, self._name
        await client.create_stream("s", name, StreamConfiguration(scaling=ScalingPolicy.fixed(MANY)))
        async with client.event_writer("s", name) as writer:
            for number in range(10):
                await writer.write(b"%d" % number, "key")
        tail = (await client.tail_cut("s", name)).offsets
        (used,) = (segment for segment, offset in tail.items() if offset)
        self.cuts = [dict.fromkeys(tail, 0) | {used: 9 * events} for events in (1, 2)]
        await client.scale_stream("s", name, range(MANY), split_evenly(FULL_RANGE, MANY), wait=False)

    async def update(self):
        await self._exclude(
            self._stub.updateStream(stream_config_to_message("s", self._name, each))
            for each in self.configurations
        )

    async def truncate(self):
        await self._exclude(
            self._stub.truncateStream(stream_cut_to_message("s", self._name, cut)) for cut in self.cuts
        )

    async def seal(self):
        self._calls.append(asyncio.ensure_future(status_of(self._stub.sealStream(self._info))))
        update = stream_config_to_message("s", self._name, self.configurations[0])
        status = None
        while status != pb.UpdateStreamStatus.STREAM_SEALED:
            status, _ = await status_of(self._stub.updateStream(update))

    async def delete(self):
        await self.seal()
        self._calls.append(asyncio.ensure_future(status_of(self._stub.deleteStream(self._info))))
        # What is asked behind it is answered: by then it has arrived as well.
        for _ in range(3):
            await status_of(self._stub.sealStream(pb.StreamInfo(scope="s", stream="none")))

    async def die(self, server):
        """Kill the server and all callers. Raises TooLateError: one of them was answered."""
        if any(call.done() for call in self._calls):
            raise TooLateError
        await asyncio.to_thread(server.kill)
        answers = await asyncio.gather(*self._calls, return_exceptions=True)
        if not all(isinstance(each, grpc.aio.AioRpcError) for each in answers):
            raise TooLateError

    async def _exclude(self, calls):
        """Make two calls that exclude each other: one waits for sure once the other is refused for it."""
        tasks = [asyncio.ensure_future(status_of(call)) for call in calls]
        done, waiting = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if len(done) > 1 or not isinstance(done.pop().result()[1], StreamBusyError):
            raise TooLateError
        self._calls += waiting
        self.chosen = tasks.index(*waiting)

    # ---------------------------------------------------------------------------------- what holds then

    async def is_updated(self):
        found = await self._client.stream_configuration("s", self._name)
        return found == self.configurations[self.chosen] and await self._is_scaled(range(10))

    async def is_truncated(self):
        found = await self._client.head_cut("s", self._name)
        return found.offsets == self.cuts[self.chosen] and await self._is_scaled(range(1 + self.chosen, 10))

    async def is_sealed(self):
        if await self._client.current_segments("s", self._name):
            return False
        return await read(self._client, self._name) == [b"%d" % number for number in range(10)]

    async def is_deleted(self):
        return not await self._client.stream_exists("s", self._name)

    async def _is_scaled(self, numbers):
        epochs = {each.segment_id >> 32 for each in await self._client.current_segments("s", self._name)}
        return epochs == {1} and await read(self._client, self._name) == [b"%d" % each for each in numbers]


async def status_of(call):
    """Return the status of a reply, and the error that the controller told with it."""
    reply = await call
    return reply.status, told_error(await call.trailing_metadata() or ())


async def kill_while_waiting(server, client, what, done):
    """Ask for ``what``, kill the server while that waits for a scale, start it, wait until it is ``done``."""
    for attempt in range(ATTEMPTS):
        async with grpc.aio.insecure_channel(server.addresses["controller"]) as channel:
            busy = Busy(client, ControllerServiceStub(channel), f"{what}-{attempt}")
            await busy.make()
            try:
                await getattr(busy, what)()
                await busy.die(server)
            except TooLateError:
                continue
            finally:
                if not server.is_running:
                    await asyncio.to_thread(server.start)
        await eventually(getattr(busy, done), 240)
        return
    pytest.fail("the server was never killed in time")


CHANGES = [
    ("seal", "is_sealed"),
    ("update", "is_updated"),
    ("truncate", "is_truncated"),
    ("delete", "is_deleted"),
]


async def test_changes_that_wait_behind_a_scale_outlive_the_server_and_their_callers(server):
    async with connect(server.uri, PATIENT) as client:
        await client.create_scope("s")
        for change, done in CHANGES[: examples(len(CHANGES))]:
            await kill_while_waiting(server, client, change, done)


class Flood:
    """Events of one stream, in order per key, written over kills until told to stop."""

    def __init__(self, client, stream, size, keys):
        self._client = client
        self._stream = stream
        self._size = size
        self._keys = [f"key-{number}" for number in range(keys)]
        self._stopping = False
        self.written = 0

    async def write(self):
        async with self._client.event_writer("s", self._stream) as writer:
            while not self._stopping:
                for key in self._keys:
                    writer.write(f"{key} {self.written} ".encode().ljust(self._size, b"."), key)
                await writer.flush()
                self.written += 1

    def stop(self):
        self._stopping = True

    async def found(self):
        found = defaultdict(list)
        for event in await read(self._client, self._stream):
            key, number, _ = event.decode().split()
            found[key].append(int(number))
        return found


@contextlib.asynccontextmanager
async def flooding(client, stream, configuration, size=20, keys=50):
    """Yield a flood of a new stream; it has ended behind this."""
    await client.create_stream("s", stream, configuration)
    flood = Flood(client, stream, size, keys)
    task = asyncio.ensure_future(flood.write())
    try:
        yield flood
        flood.stop()
        await task
    finally:
        task.cancel()


@soak
async def test_a_stream_that_splits_by_itself_is_whole_after_kills_during_the_splits(server):
    policy = StreamConfiguration(scaling=ScalingPolicy.by_event_rate(1, scale_factor=24))
    async with connect(server.uri, PATIENT) as client:
        await client.create_scope("s")
        async with flooding(client, "busy", policy) as flood:
            for kills in range(2):
                await asyncio.to_thread(server.wait_for_log, SPLIT, 60, len(server.log()) if kills else 0)
                await restart(server)
            before = flood.written

            async def goes_on():
                return flood.written > before

            await eventually(goes_on, 240)
        segments = await client.current_segments("s", "busy")
        assert len(segments) > 2
        assert sum(each.key_range.high - each.key_range.low for each in segments) == pytest.approx(1.0)
        assert await flood.found() == {f"key-{number}": list(range(flood.written)) for number in range(50)}


@soak
async def test_retention_drops_what_it_may_and_no_more_over_kills(server):
    policy = StreamConfiguration(retention=RetentionPolicy.by_size(RETAINED))
    async with connect(server.uri, PATIENT) as client:
        await client.create_scope("s")

        async def head():
            return (await client.head_cut("s", "kept")).offsets[0]

        async def moves(times):
            for _ in range(times):
                before = await head()

                async def has_moved(before=before):
                    return await head() > before

                await eventually(has_moved, 240)

        async with flooding(client, "kept", policy, size=100, keys=1) as flood:
            for _ in range(3):
                await moves(3)
                before = await head()
                await restart(server)
                assert await head() >= before
            await moves(1)

        async def read_at_rest():
            """Return the numbers and where they begin, once no truncation of the policy came between."""
            offset = await head()
            try:
                (numbers,) = (await flood.found()).values()
            except SegmentTruncatedError:
                return None
            return (numbers, offset) if await head() == offset else None

        numbers, offset = await eventually(read_at_rest, 240)
        assert numbers == list(range(numbers[0], flood.written))
        assert numbers[0] > 0
        tail = (await client.tail_cut("s", "kept")).offsets[0]
        assert tail - offset >= RETAINED
        assert offset == numbers[0] * 108

        async def truncated():
            try:
                await client.truncate_stream(StreamCut.from_offsets("s", "kept", {0: tail}))
            except StreamBusyError:  # the last truncation of the policy is not done yet
                return False
            return True

        await eventually(truncated, 240)
        assert await flood.found() == {}
