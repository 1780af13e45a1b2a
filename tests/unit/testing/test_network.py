import asyncio

import pytest

from headrace.testing.failures import UnhandledError
from headrace.testing.network_config import NetworkConfig
from headrace.testing.simulation import simulate


class Recorder(asyncio.Protocol):
    """Remembers what happens to one end."""

    def __init__(self):
        self.data = bytearray()
        self.pieces = []
        self.events = []
        self.lost = asyncio.get_running_loop().create_future()

    def connection_made(self, transport):
        self.transport = transport
        self.events.append("made")

    def data_received(self, data):
        self.pieces.append(len(data))
        self.data += data

    def eof_received(self):
        self.events.append("eof")

    def pause_writing(self):
        self.events.append("pause")

    def resume_writing(self):
        self.events.append("resume")

    def connection_lost(self, error):
        self.events.append("lost")
        self.error = error
        self.lost.set_result(type(error))


async def connected(sim, near="client", far="server"):
    """Return the two ends of a connection between two hosts."""
    accepted = sim.loop.create_future()

    def accept():
        recorder = Recorder()
        accepted.set_result(recorder)
        return recorder

    loop = asyncio.get_running_loop()
    await sim.host(far).run(loop.create_server(accept, port=9000))
    _, client = await sim.host(near).run(loop.create_connection(Recorder, far, 9000))
    return client, await accepted


def run(scenario, seed=0, **config):
    return simulate(seed, scenario, network=NetworkConfig(**config))


def test_bytes_arrive_in_order_cut_and_joined_in_many_ways():
    async def scenario(sim):
        client, server = await connected(sim)
        sent = bytes(range(256)) * 400
        for at in range(0, len(sent), 997):
            client.transport.write(sent[at : at + 997])
            if at % 5 == 0:
                await asyncio.sleep(0.0002)
        client.transport.close()
        await server.lost
        assert server.data == sent
        assert server.events == ["made", "eof", "lost"]
        return tuple(server.pieces)

    seen = {run(scenario, seed).value for seed in range(10)}
    assert len(seen) == 10
    assert any(min(pieces) < 20 for pieces in seen)
    assert any(max(pieces) > 2 * 997 for pieces in seen)


@pytest.mark.parametrize("seed", range(5))
def test_asyncio_streams_work_over_it(seed):
    async def echo(reader, writer):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        writer.close()

    async def scenario(sim):
        server, client = sim.host("server"), sim.host("client")
        listening = await server.run(asyncio.start_server(echo, port=0))
        port = listening.sockets[0].getsockname()[1]

        async def talk():
            reader, writer = await asyncio.open_connection("server", port)
            writer.write(b"x" * 1_000_000)
            writer.write_eof()
            answer = await reader.read(-1)
            writer.close()
            await writer.wait_closed()
            return len(answer)

        assert await client.run(talk()) == 1_000_000
        listening.close()
        await listening.wait_closed()

    run(scenario, seed)


def test_buffered_protocols_are_fed_through_their_buffer():
    class Buffered(asyncio.BufferedProtocol):
        def __init__(self):
            self.buffer = bytearray(100)
            self.data = bytearray()
            self.ended = asyncio.get_running_loop().create_future()

        def get_buffer(self, sizehint):
            return memoryview(self.buffer)

        def buffer_updated(self, nbytes):
            self.data += self.buffer[:nbytes]

        def eof_received(self):
            self.ended.set_result(bytes(self.data))

    async def scenario(sim):
        loop = asyncio.get_running_loop()
        made = []
        await sim.host("s").run(loop.create_server(lambda: made.append(Buffered()) or made[0], port=1))
        transport, _ = await sim.host("c").run(loop.create_connection(asyncio.Protocol, "s", 1))
        transport.write(b"0123456789" * 100)
        transport.write_eof()
        await asyncio.sleep(1)
        return await made[0].ended

    assert run(scenario).value == b"0123456789" * 100


def test_a_reader_that_pauses_makes_the_writer_pause_and_nothing_is_lost():
    async def scenario(sim):
        client, server = await connected(sim)
        server.transport.pause_reading()
        for _ in range(20):
            client.transport.write(bytes(50_000))
        await asyncio.sleep(1)
        assert "pause" in client.events
        assert "resume" not in client.events
        assert server.data == b""
        assert client.transport.get_write_buffer_size() >= 1_000_000 - 256 * 1024 - 64 * 1024
        server.transport.resume_reading()
        await asyncio.sleep(1)
        assert client.events[-1] == "resume"
        assert len(server.data) == 1_000_000

    run(scenario)


def test_a_buffer_that_is_changed_after_write_sends_the_change():
    async def scenario(sim):
        client, server = await connected(sim)
        buffer = bytearray(b"original")
        client.transport.write(memoryview(buffer))
        buffer[:] = b"scribble"
        await asyncio.sleep(1)
        return bytes(server.data)

    assert run(scenario).value == b"scribble"


def test_a_dropped_connection_delivers_a_prefix_and_tells_both_ends():
    async def scenario(sim):
        client, server = await connected(sim)
        for number in range(100):
            client.transport.write(bytes([number]) * 1000)
            await asyncio.sleep(0.0001)
        assert sim.network.drop_connections("client") == 1
        assert await client.lost is ConnectionResetError
        assert await server.lost is ConnectionResetError
        expected = b"".join(bytes([number]) * 1000 for number in range(100))
        assert expected.startswith(bytes(server.data))
        client.transport.write(b"ignored")
        return len(server.data)

    assert len({run(scenario, seed).value for seed in range(10)}) > 3


def test_connections_drop_by_chance():
    async def scenario(sim):
        client, server = await connected(sim)
        for _ in range(2_000):
            client.transport.write(b"x")
            await asyncio.sleep(0.01)
            if client.lost.done():
                break
        await server.lost
        return len(server.data)

    assert len({run(scenario, seed, drop_chance=0.02).value for seed in range(5)}) > 2


def test_a_clog_delays_one_direction_and_loses_nothing():
    async def scenario(sim):
        client, server = await connected(sim)
        sim.network.clog("client", "server", 5.0)
        client.transport.write(b"late")
        server.transport.write(b"in time")
        await asyncio.sleep(1)
        assert (server.data, client.data) == (b"", b"in time")
        await asyncio.sleep(5)
        assert server.data == b"late"
        assert not client.lost.done()

    run(scenario)


def test_in_a_partition_a_sender_gives_up_and_a_listener_learns_nothing():
    async def scenario(sim):
        client, server = await connected(sim)
        sim.network.partition(["client"], ["server"])
        client.transport.write(b"into the void")
        assert await client.lost is TimeoutError
        await asyncio.sleep(100)
        assert not server.lost.done()
        sim.network.heal()
        server.transport.write(b"anybody there?")  # the other end is gone: it answers with a reset
        assert await server.lost is ConnectionResetError

    run(scenario)


def test_a_short_partition_is_only_a_delay():
    async def scenario(sim):
        client, server = await connected(sim)
        sim.network.partition(["client"], ["server"])
        client.transport.write(b"a")
        server.transport.write(b"b")
        await asyncio.sleep(10)
        sim.network.heal()
        await asyncio.sleep(1)
        assert (server.data, client.data) == (b"a", b"b")

    run(scenario)


def test_connecting_into_a_partition_times_out_unless_it_heals():
    async def scenario(sim):
        server, client = sim.host("server"), sim.host("client")
        loop = asyncio.get_running_loop()
        await server.run(loop.create_server(Recorder, port=9))
        sim.network.partition(["client"], ["server"])
        with pytest.raises(TimeoutError):
            await client.run(loop.create_connection(Recorder, "server", 9))
        waiting = asyncio.ensure_future(client.run(loop.create_connection(Recorder, "server", 9)))
        await asyncio.sleep(5)
        sim.network.heal()
        await waiting

    run(scenario)


def test_nobody_listening_is_a_refusal_and_a_port_is_used_once():
    async def scenario(sim):
        host = sim.host("a")
        loop = asyncio.get_running_loop()
        with pytest.raises(ConnectionRefusedError):
            await host.run(loop.create_connection(Recorder, "localhost", 9))
        server = await host.run(loop.create_server(Recorder, "127.0.0.1", 9))
        with pytest.raises(OSError):
            await host.run(loop.create_server(Recorder, "127.0.0.1", 9))
        with pytest.raises(OSError):
            await host.run(loop.create_server(Recorder, "elsewhere", 10))
        await host.run(loop.create_connection(Recorder, "localhost", 9))
        server.close()
        with pytest.raises(ConnectionRefusedError):
            await host.run(loop.create_connection(Recorder, "localhost", 9))

    run(scenario)


def test_a_killed_peer_is_noticed_as_an_end_or_a_reset():
    async def scenario(sim):
        client, server = await connected(sim)
        server.transport.write(b"last words")
        await asyncio.sleep(1)
        sim.host("server").kill()
        error = await client.lost
        assert client.data == b"last words"
        assert server.events == ["made"]  # the dead are told nothing
        return error

    assert {run(scenario, seed).value for seed in range(20)} == {ConnectionResetError, type(None)}


def test_a_peer_without_power_is_silent_until_it_is_back():
    async def scenario(sim):
        client, _ = await connected(sim)
        host = sim.host("server")
        host.lose_power()
        await asyncio.sleep(100)
        assert not client.lost.done()
        client.transport.write(b"hello?")
        await asyncio.sleep(10)
        assert not client.lost.done()
        host.boot()
        assert await client.lost is ConnectionResetError

    run(scenario)


def test_a_killed_server_no_longer_listens_and_its_successor_may_take_the_port():
    async def scenario(sim):
        loop = asyncio.get_running_loop()
        await connected(sim)
        host = sim.host("server")
        host.kill()
        with pytest.raises(ConnectionRefusedError):
            await sim.host("client").run(loop.create_connection(Recorder, "server", 9000))
        host.boot()
        await host.run(loop.create_server(Recorder, port=9000))
        await sim.host("client").run(loop.create_connection(Recorder, "server", 9000))

    run(scenario)


def test_aborting_resets_the_peer_and_ends_with_no_error_here():
    async def scenario(sim):
        client, server = await connected(sim)
        client.transport.write(b"x" * 100_000)
        client.transport.abort()
        assert await client.lost is type(None)
        assert await server.lost is ConnectionResetError

    run(scenario)


def test_half_closed_connections_still_answer():
    class Answering(Recorder):
        def eof_received(self):
            self.transport.write(b"got " + bytes(self.data))
            self.transport.close()
            return True

    async def scenario(sim):
        loop = asyncio.get_running_loop()
        await sim.host("s").run(loop.create_server(Answering, port=1))
        _, client = await sim.host("c").run(loop.create_connection(Recorder, "s", 1))
        client.transport.write(b"question")
        client.transport.write_eof()
        with pytest.raises(RuntimeError):
            client.transport.write(b"more")
        await client.lost
        return bytes(client.data)

    assert run(scenario).value == b"got question"


def test_a_protocol_that_raises_loses_its_connection_and_fails_the_run():
    class Broken(Recorder):
        def data_received(self, data):
            raise ValueError("cannot parse")

    async def scenario(sim):
        loop = asyncio.get_running_loop()
        made = []
        await sim.host("s").run(loop.create_server(lambda: made.append(Broken()) or made[-1], port=1))
        _, client = await sim.host("c").run(loop.create_connection(Recorder, "s", 1))
        client.transport.write(b"x")
        await client.lost
        assert isinstance(made[0].error, ValueError)

    with pytest.raises(UnhandledError, match="cannot parse"):
        run(scenario)


def test_waiting_for_a_closed_server_waits_for_its_connections():
    async def scenario(sim):
        loop = asyncio.get_running_loop()
        server = await sim.host("s").run(loop.create_server(Recorder, port=1))
        _, client = await sim.host("c").run(loop.create_connection(Recorder, "s", 1))
        await asyncio.sleep(1)
        server.close()
        waiting = asyncio.ensure_future(server.wait_closed())
        await asyncio.sleep(10)
        assert not waiting.done()
        client.transport.close()
        await waiting

    run(scenario)


def test_no_connection_is_remembered_after_its_end():
    async def scenario(sim):
        loop = asyncio.get_running_loop()
        await sim.host("s").run(loop.create_server(Recorder, port=1))
        for _ in range(20):
            _, client = await sim.host("c").run(loop.create_connection(Recorder, "s", 1))
            client.transport.close()
        await asyncio.sleep(1)
        statistics = sim.network.statistics()
        return statistics.connections_made, statistics.connections_open, len(sim.network._transports)

    assert run(scenario).value == (20, 0, 0)
