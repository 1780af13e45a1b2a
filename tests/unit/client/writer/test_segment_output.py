"""An output at the moments at which its conversation with the server may go two ways."""

import asyncio
import time
from types import SimpleNamespace

from headrace.client import WriterConfig
from headrace.client.ack_watch import AckWatch
from headrace.client.connections.connection import Connection
from headrace.client.segment_address import SegmentAddress
from headrace.client.writer import segment_output
from headrace.client.writer.ack import Ack
from headrace.client.writer.inflight_window import Block
from headrace.client.writer.segment_output import SegmentOutput
from headrace.errors import ConnectionLostError
from headrace.limits import INT64_MIN
from headrace.model.endpoint import Endpoint
from headrace.runtime.entropy import SeededEntropy
from headrace.runtime.supervisor import Supervisor
from headrace.testing.simulation import simulate
from headrace.wire.commands import AppendSetup

NAME = "s/t/0.#epoch.0"


class Transport:
    """Takes what is sent, and shows nobody."""

    def set_write_buffer_limits(self, high):
        pass

    def write(self, data):
        pass

    def abort(self):
        pass


class Owner:
    """A writer of one segment."""

    is_loaded = False

    def on_durable(self, event_count, size_bytes):
        pass


def output_on(connection):
    """Return an output that finds ``connection`` at once, and the supervisor of its tasks."""

    async def found(*_):
        return connection

    async def nothing(*_):
        return ""

    tasks = Supervisor("test")
    services = SimpleNamespace(
        pool=SimpleNamespace(lease=found, new_request_id=lambda: 1),
        segments=SimpleNamespace(endpoint=nothing, forget_endpoint=lambda *_: None),
        tokens=SimpleNamespace(token=nothing),
        entropy=SeededEntropy(1),
        supervisor=tasks,
        acks=AckWatch(),
    )
    return SegmentOutput(SegmentAddress("s", "t", 0), services, WriterConfig(), Owner()), tasks


async def test_an_answer_to_the_setup_in_the_turn_that_ends_the_patience_is_one(monkeypatch):
    monkeypatch.setattr(segment_output, "SETUP_TIMEOUT_S", 0.05)
    connection = Connection(Endpoint("host", 1), lambda _: None)
    connection.connection_made(Transport())
    output, tasks = output_on(connection)
    ack = Ack(1)
    output.add_block(Block([b"event"], 5, 1, None, [ack]))
    while not connection.flow_count:  # noqa: ASYNC110 - until the setup was sent
        await asyncio.sleep(0)
    setup = AppendSetup(1, NAME, output._writer_id, INT64_MIN)
    asyncio.get_running_loop().call_later(0.001, output.on_reply, setup)
    time.sleep(0.1)  # noqa: ASYNC251 - the process stands still, and finds both when it goes on
    await asyncio.sleep(0.05)
    output.check()
    assert output.statistics().blocks_sent == 1
    output.on_appended(INT64_MIN, 1, 5)
    assert ack.done()
    output.leave()
    await tasks.stop()
    connection.abort()


async def test_an_attempt_that_begins_before_the_one_before_has_ended_hears_its_answer(monkeypatch):
    monkeypatch.setattr(segment_output, "SETUP_TIMEOUT_S", 0.05)
    connection = Connection(Endpoint("host", 1), lambda _: None)
    connection.connection_made(Transport())
    output, tasks = output_on(connection)
    ack = Ack(1)
    output.add_block(Block([b"event"], 5, 1, None, [ack]))
    while not connection.flow_count:  # noqa: ASYNC110 - until the setup was sent
        await asyncio.sleep(0)
    setup = AppendSetup(1, NAME, output._writer_id, INT64_MIN)
    output.on_reply(setup)
    output.on_connection_lost(ConnectionLostError("in the same turn"))
    while not connection.flow_count:  # noqa: ASYNC110 - until the setup was sent again
        await asyncio.sleep(0)
    await asyncio.sleep(0.01)
    output.on_reply(setup)
    await asyncio.sleep(0.1)
    output.check()
    output.on_appended(INT64_MIN, 1, 5)
    assert ack.done()
    output.leave()
    await tasks.stop()
    connection.abort()


def test_a_server_that_acknowledges_nothing_is_named_after_ten_seconds_and_when_it_goes_on(caplog):
    async def scenario():
        connection = Connection(Endpoint("host", 1), lambda _: None)
        connection.connection_made(Transport())
        output, tasks = output_on(connection)
        ack = Ack(1)
        output.add_block(Block([b"event"], 5, 1, None, [ack]))
        await asyncio.sleep(0.01)
        output.on_reply(AppendSetup(1, NAME, output._writer_id, INT64_MIN))
        await asyncio.sleep(30)
        output.on_appended(INT64_MIN, 1, 5)
        assert ack.done()
        output.leave()
        await tasks.stop()
        connection.abort()

    simulate(0, lambda _: scenario())
    assert [line.getMessage() for line in caplog.records if line.levelname == "WARNING"] == [
        "no acknowledgement from host:1 for 10 s for 1 segment of stream s/t; events are kept and sent again",
        "acknowledgements from host:1 for stream s/t go on after 30 s",
    ]
