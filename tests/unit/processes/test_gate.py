"""The gate in front of a segment store: what is shut out answers nothing, whatever was accepted before."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from headrace.errors import ConnectionLostError, UnknownOutcomeError, WrongHostError
from headrace.model.tables import TableEntry
from headrace.processes.config import SegmentStoreConfig
from headrace.processes.own_cluster import OwnCluster
from headrace.processes.wired_store import WiredStore
from headrace.runtime.context import system_runtime
from headrace.testing.wire_client import WireClient
from headrace.wire import commands as c

pytestmark = pytest.mark.real_loop
SEGMENT = "s/t/0.#epoch.0"
WRITER = bytes(range(16))


class Door:
    """Opened and shut by the test, like the lease of a store."""

    is_open = True

    def serves(self, container_id):
        return self.is_open

    def owner_of(self, container_id):
        return "elsewhere:12345"


@asynccontextmanager
async def gated():
    door = Door()
    cluster = OwnCluster(1, system_runtime())
    cluster.gate = door
    plane = WiredStore(SegmentStoreConfig(in_memory=True), system_runtime(), 1, cluster=cluster)
    await plane.start()
    try:
        wire = await WireClient.connect("127.0.0.1", await plane.listen("127.0.0.1", 0), 120)
        created = await wire.call(c.CreateSegment(1, SEGMENT, 0, 0, ""), 120)
        assert isinstance(created, c.SegmentCreated)
        yield door, plane, wire
        wire.close()
    finally:
        await plane.stop()


async def test_a_request_is_told_who_serves_the_segment():
    async with gated() as (door, plane, wire):
        door.is_open = False
        for request in (
            c.GetStreamSegmentInfo(7, SEGMENT, ""),
            c.SetupAppend(7, WRITER, SEGMENT, ""),
            c.ReadSegment(SEGMENT, 0, 100, "", 7),
        ):
            assert await wire.call(request, 120) == c.WrongHost(7, SEGMENT, "elsewhere:12345", "")
        with pytest.raises(WrongHostError, match="elsewhere:12345"):
            await plane.store.seal_segment(SEGMENT)
        door.is_open = True
        answer = await wire.call(c.GetStreamSegmentInfo(8, SEGMENT, ""), 120)
        assert isinstance(answer, c.StreamSegmentInfo)
        assert not answer.is_sealed


async def test_an_append_is_not_acknowledged_once_the_gate_is_shut():
    async with gated() as (door, plane, wire):
        assert isinstance(await wire.call(c.SetupAppend(1, WRITER, SEGMENT, ""), 120), c.AppendSetup)
        door.is_open = False
        with pytest.raises(ConnectionLostError):
            await wire.call(c.AppendBlockEnd(WRITER, 3, b"abc", 1, 1, 2), 120)
        door.is_open = True
        assert (await plane.store.segment_info(SEGMENT)).length == 0


async def test_what_became_durable_behind_a_shut_gate_is_not_answered():
    """Neither a caller nor an update of a table that was begun without waiting."""
    async with gated() as (door, plane, _):
        store = plane.store
        await store.create_table("s/table")
        await store.table_update("s/table", [TableEntry(b"first", b"")])
        outcome = asyncio.get_running_loop().create_future()
        update = [TableEntry(b"key", b"value")]
        assert store.begin_table_update("s/table", update, -1, lambda *what: outcome.set_result(what))
        appending = asyncio.ensure_future(store.append(SEGMENT, b"whole"))
        await asyncio.sleep(0)
        door.is_open = False
        with pytest.raises(UnknownOutcomeError):
            await appending
        versions, error = await outcome
        assert versions is None
        assert isinstance(error, UnknownOutcomeError)
        door.is_open = True
        assert (await store.segment_info(SEGMENT)).length == 5


async def test_an_acknowledgement_is_withheld_if_the_gate_is_shut_meanwhile():
    async with gated() as (door, plane, wire):
        assert isinstance(await wire.call(c.SetupAppend(1, WRITER, SEGMENT, ""), 120), c.AppendSetup)
        answer = asyncio.ensure_future(wire.call(c.AppendBlockEnd(WRITER, 3, b"abc", 1, 1, 2), 120))
        while not plane.statistics()["listener"].appends:  # noqa: ASYNC110 - nothing announces it
            await asyncio.sleep(0)
        door.is_open = False
        with pytest.raises(ConnectionLostError):
            await answer


async def test_a_read_that_waits_at_the_tail_is_not_answered_behind_a_shut_gate():
    async with gated() as (door, plane, wire):
        waiting = asyncio.ensure_future(wire.call(c.ReadSegment(SEGMENT, 0, 100, "", 7), 120))
        while not plane.statistics()["listener"].waiting_reads:  # noqa: ASYNC110 - nothing announces it
            await asyncio.sleep(0)
        appending = asyncio.ensure_future(plane.store.append(SEGMENT, b"late"))
        await asyncio.sleep(0)
        door.is_open = False
        with pytest.raises(UnknownOutcomeError):
            await appending
        with pytest.raises(ConnectionLostError):
            await waiting
