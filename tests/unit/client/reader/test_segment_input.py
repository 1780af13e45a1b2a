"""A segment's reader over lost connections, on virtual time."""

import asyncio
from functools import wraps
from types import SimpleNamespace

from headrace.client import ReaderConfig
from headrace.client.connections.reply_receiver import ReadBlock
from headrace.client.reader.segment_input import SegmentInput
from headrace.client.segment_address import SegmentAddress
from headrace.errors import ConnectionLostError, StorageReadRefusedError
from headrace.runtime.entropy import SeededEntropy
from headrace.runtime.supervisor import Supervisor
from headrace.testing.loop import SimulatedLoop
from headrace.wire.commands import (
    ErrorMessage,
    GetStreamSegmentInfo,
    ReadSegment,
    StreamSegmentInfo,
    WrongHost,
)

SOME_TIME_S = 600.0
"""Longer than a reader tries to get an answer."""


def on_virtual_time(test):
    @wraps(test)
    def run():
        loop = SimulatedLoop(SeededEntropy(1))
        try:
            loop.run_until_complete(test())
        finally:
            loop.close()

    return run


class Owner:
    """The segment's owner, and the connection to it. Holds ``length`` bytes; reads at the tail wait."""

    def __init__(self):
        self.length = 100
        self.reachable = True
        self.answers_reads = True
        self.refusal = None
        self.flow = None
        self.attached = 0

    def register(self, request_id, flow):
        self.attached += self.flow is None
        self.flow = flow

    def unregister(self, request_id):
        self.flow = None

    def send(self, command):
        asyncio.get_running_loop().call_soon(self.answer, self.flow, command)

    def answer(self, flow, command):
        if flow is not self.flow:
            return
        match command:
            case GetStreamSegmentInfo(request_id=request_id, segment=name):
                flow.on_reply(StreamSegmentInfo(request_id, name, True, False, False, 0, self.length, 0))
            case ReadSegment(request_id=request_id, segment=name) if self.refusal is not None:
                flow.on_reply(ErrorMessage(request_id, name, self.refusal, -1))
            case ReadSegment(request_id=request_id, segment=name) if not self.answers_reads:
                flow.on_reply(WrongHost(request_id, name, "", ""))
            case ReadSegment(request_id=request_id, offset=offset) if offset < self.length:
                flow.on_reply(block(request_id, offset, bytes(self.length - offset)))

    def lose(self):
        flow, self.flow = self.flow, None
        flow.on_connection_lost(ConnectionLostError("reset"))

    async def lease(self, endpoint, use):
        if not self.reachable:
            raise ConnectionLostError("refused")
        return self

    async def token(self, scope, stream, access):
        return ""

    async def endpoint(self, scope, stream, segment_id):
        return SimpleNamespace()

    def forget_endpoint(self, scope, stream, segment_id):
        pass

    def new_request_id(self):
        self.ids = getattr(self, "ids", 0) + 1
        return self.ids


def block(request_id, offset, data):
    return ReadBlock(bytearray(data), 0, len(data), offset, request_id, at_tail=True, end_of_segment=False)


async def reader_of(owner):
    supervisor = Supervisor("test")
    services = SimpleNamespace(
        tokens=owner, segments=owner, pool=owner, supervisor=supervisor, entropy=SeededEntropy(1)
    )
    found = SegmentInput(SegmentAddress("s", "t", 0), services, ReaderConfig(), lambda _: None, offset=0)
    found.start()
    await asyncio.sleep(1)
    while found.take() is not None:
        pass
    await asyncio.sleep(1)
    return found


@on_virtual_time
async def test_a_reader_that_waits_at_the_tail_survives_a_lost_connection_now_and_then():
    owner = Owner()
    reader = await reader_of(owner)
    for lost in range(1, 6):
        await asyncio.sleep(SOME_TIME_S)
        owner.lose()
        await asyncio.sleep(1)
        assert (reader.error, owner.attached) == (None, 1 + lost)
    owner.length += 10
    owner.lose()
    await asyncio.sleep(1)
    assert len(reader.take()) == 10


@on_virtual_time
async def test_a_reader_gives_up_when_nobody_has_answered_for_too_long():
    owner = Owner()
    reader = await reader_of(owner)
    owner.reachable = False
    owner.lose()
    await asyncio.sleep(100)
    assert reader.error is None
    await asyncio.sleep(60)
    assert isinstance(reader.error, ConnectionLostError)


@on_virtual_time
async def test_an_owner_that_knows_of_bytes_and_does_not_give_them_is_given_up():
    owner = Owner()
    reader = await reader_of(owner)
    owner.length, owner.answers_reads = 200, False
    owner.lose()
    await asyncio.sleep(200)
    assert isinstance(reader.error, ConnectionLostError)


@on_virtual_time
async def test_what_the_store_refuses_is_an_error_with_its_reason_after_some_seconds():
    owner = Owner()
    reader = await reader_of(owner)
    owner.length, owner.refusal = 200, "the store denied permission"
    owner.lose()
    await asyncio.sleep(5)
    assert reader.error is None
    await asyncio.sleep(7)
    assert isinstance(reader.error, StorageReadRefusedError)
    assert "the store denied permission" in str(reader.error)


def test_a_reader_goes_on_when_the_store_refuses_for_a_moment_and_says_so_once(caplog):
    @on_virtual_time
    async def scenario():
        owner = Owner()
        reader = await reader_of(owner)
        owner.length, owner.refusal = 200, "the credentials have expired"
        owner.lose()
        await asyncio.sleep(6)
        owner.refusal = None
        await asyncio.sleep(3)
        assert len(reader.take()) == 100
        assert reader.error is None

    scenario()
    said = [line for line in caplog.records if line.levelname == "WARNING"]
    assert ["refuses a read" in line.getMessage() for line in said] == [True]
