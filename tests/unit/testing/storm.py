"""Touches every part of a simulation at once, for the test that one seed is one run.

Clients send lines to a server that logs them through a pool and answers; it is killed, loses power and is
clogged meanwhile. The program uses sets of futures and groups of tasks on purpose: they must repeat too.
Run as a program it prints its trace.
"""

import asyncio
import os
import sys

from headrace.runtime.supervisor import Supervisor
from headrace.testing.disk import DiskConfig, Moment
from headrace.testing.host import HostDownError
from headrace.testing.network_config import NetworkConfig
from headrace.testing.simulation import simulate


class Server:
    """Appends every line it is sent to a file, durably, and echoes it."""

    def __init__(self, runtime):
        self.runtime = runtime
        self.pool = runtime.threads.pool(2, "disk")
        self.supervisor = Supervisor("server", lambda name, error: None)
        self.offset = 0

    async def start(self):
        files = self.runtime.filesystem
        self.fd = await self.pool.run(files.open, "/log", os.O_RDWR | os.O_CREAT)
        await self.pool.run(files.fsync_directory, "/")
        self.offset = files.size(self.fd)
        await asyncio.start_server(self.serve, port=7000)
        self.supervisor.spawn("idle", self.idle())

    async def idle(self):
        while True:  # noqa: ASYNC110 - something that only passes time
            await asyncio.sleep(0.5 + self.runtime.entropy.random())

    async def serve(self, reader, writer):
        try:
            while line := await reader.readline():
                offset, self.offset = self.offset, self.offset + len(line)
                await self.pool.run(self.runtime.filesystem.pwrite, self.fd, line, offset)
                await self.pool.run(self.runtime.filesystem.fsync, self.fd)
                writer.write(line)
        except OSError:
            pass
        finally:
            writer.close()


async def client(name, sim):
    for number in range(40):
        try:
            async with asyncio.timeout(3):
                reader, writer = await asyncio.open_connection("server", 7000)
                writer.write(f"{name}-{number}\n".encode())
                answer = await reader.readline()
                sim.trace.add(name, "answer", data=answer)
                writer.close()
        except (OSError, TimeoutError) as error:
            sim.trace.add(name, "failed", error=type(error).__name__)
            await asyncio.sleep(0.2)


async def boots(sim, host):
    """Keep the server running, whatever happens to it."""
    while True:
        if not host.is_up:
            host.boot()
        try:
            await host.run(Server(host.runtime).start())
        except HostDownError:
            continue
        while host.is_up:  # noqa: ASYNC110 - a watchdog looks from time to time
            await asyncio.sleep(0.3)


async def faults(sim, host):
    while True:
        await asyncio.sleep(0.05 + sim.entropy.random())
        match sim.entropy.randbelow(5):
            case 0:
                host.kill()
            case 1:
                host.disk.plan_power_loss(
                    host.disk.statistics().durable_writes + 1 + sim.entropy.randbelow(3),
                    list(Moment)[sim.entropy.randbelow(3)],
                )
            case 2:
                sim.network.clog("server", "client-1", sim.entropy.random())
            case 3:
                sim.network.drop_connections("server")
            case 4:
                host.disk.fail("fsync")


async def races(sim):
    """Sets of futures and tasks, as asyncio makes them."""
    loop = asyncio.get_running_loop()
    for _ in range(20):
        futures = {loop.create_future() for _ in range(5)}
        for future in futures:
            loop.call_later(sim.entropy.random(), future.set_result, None)
        done, pending = await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
        sim.trace.add("races", "done", hashes=[hash(f) for f in done], left=[hash(f) for f in pending])
        await asyncio.wait(pending)


async def storm(sim):
    server = sim.host("server")
    for number in range(3):
        sim.host(f"client-{number}")
    background = Supervisor("storm")
    background.spawn("boots", boots(sim, server))
    background.spawn("faults", faults(sim, server))
    async with asyncio.TaskGroup() as group:
        group.create_task(races(sim))
        for number in range(3):
            group.create_task(sim.host(f"client-{number}").run(client(f"client-{number}", sim)))
    await background.stop()
    if server.disk.powered:
        server.disk.check()


if __name__ == "__main__":
    result = simulate(
        int(sys.argv[1]),
        storm,
        network=NetworkConfig(drop_chance=0.01),
        disk=DiskConfig(),
        trace_callbacks=True,
        lines_retained=1_000_000,
    )
    print("\n".join(result.trace.lines))
    print(result.trace.digest)
