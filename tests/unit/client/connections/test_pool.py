"""Connections that end at unusual moments must not be given to anybody."""

import asyncio

import pytest

from headrace.client.connections.pool import ConnectionPool, Use
from headrace.errors import ProtocolError, UnreachableError
from headrace.wire.commands import Hello
from headrace.wire.frames import encode


class Transport:
    """Takes what is sent, and shows nobody."""

    aborted = False

    def get_extra_info(self, name):
        pass

    def set_write_buffer_limits(self, high):
        pass

    def write(self, data):
        pass

    def abort(self):
        self.aborted = True


async def test_a_connection_that_ended_before_it_was_known_is_not_kept(monkeypatch):
    is_good = False

    async def create_connection(make, *_, ssl):
        if ssl is not None:
            raise ConnectionResetError
        connection = make()
        connection.connection_made(Transport())
        if not is_good:  # uvloop delivers what came with the connection before it wakes who connects
            connection.abort(ProtocolError("the server speaks another version"))
        else:
            hello = encode(Hello(17, 5))
            connection.get_buffer(len(hello))[: len(hello)] = hello
            connection.buffer_updated(len(hello))
        return Transport(), connection

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", create_connection)
    pool = ConnectionPool()
    for _ in range(2):
        with pytest.raises(UnreachableError):
            await pool.lease(("host", 1), Use.APPEND)
    assert pool.statistics() == []
    is_good = True
    assert not (await pool.lease(("host", 1), Use.APPEND)).closed
    pool.close()


async def test_a_connection_that_is_given_up_just_when_it_is_made_is_ended(monkeypatch):
    transport = Transport()

    async def create_connection(make, *_, ssl):
        make().connection_made(transport)
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", create_connection)
    pool = ConnectionPool()
    connecting = asyncio.ensure_future(pool.lease(("host", 1), Use.APPEND))
    await asyncio.sleep(0)
    connecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await connecting
    assert transport.aborted


@pytest.mark.parametrize("host", ["two..dots", "x" * 64 + ".example"])
async def test_a_host_name_that_is_none_is_one_that_cannot_be_reached(host):
    pool = ConnectionPool()
    with pytest.raises(UnreachableError):
        await pool.lease((host, 1), Use.APPEND)


async def test_who_waits_connects_when_who_connected_is_cancelled(monkeypatch):
    """Also while it looks why the server hung up."""
    looking, hangs_up = asyncio.Event(), True

    async def create_connection(make, *_, ssl):
        connection = make()
        connection.connection_made(Transport())
        if hangs_up:
            connection.connection_lost(None)
        else:
            hello = encode(Hello(17, 5))
            connection.get_buffer(len(hello))[: len(hello)] = hello
            connection.buffer_updated(len(hello))
        return Transport(), connection

    async def speaks_tls(*_):
        looking.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", create_connection)
    monkeypatch.setattr("headrace.client.connections.pool.speaks_tls", speaks_tls)
    pool = ConnectionPool()
    first = asyncio.create_task(pool.lease(("host", 1), Use.APPEND))
    await looking.wait()
    second = asyncio.create_task(pool.lease(("host", 1), Use.APPEND))
    await asyncio.sleep(0)
    hangs_up = False
    first.cancel()
    async with asyncio.timeout(10):
        assert not (await second).closed
    pool.close()
