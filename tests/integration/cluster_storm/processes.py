"""The processes of one cluster: stores, controllers and ZooKeeper, to be killed, stopped and started."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress

from headrace.cluster.status import document_of
from headrace.controller.buckets.cluster_look import look
from headrace.coordination.coordinators import make_coordinator
from headrace.coordination.location import CoordinatorLocation
from headrace.coordination.zookeeper.config import ZooKeeperConfig
from headrace.errors import EXIT_CODES, HeadraceError, OwnershipError
from headrace.runtime.blocking import SystemThreads
from headrace.testing.local_server import HEADRACE
from headrace.testing.zookeeper_server import ZooKeeperServer
from tests import programs

TETHERED = [sys.executable, "-m", "headrace.testing.tether"]
POLL_S = 0.05
LONG_S = 180
"""Ends what is stalled."""


class Member:
    """A store or a controller: one process at a time, on the ports of its first start."""

    def __init__(self, kind, name, directory, coordinator, environment, *, disk=False):
        """``disk``: it has a data directory of its own, which may be lost."""
        self.kind, self.name = kind, name
        self._environment = environment
        self.process = None
        self.starts = 0
        self.addresses = {}
        self._directory = directory / name
        self._directory.mkdir(parents=True)
        self._disk = self._directory / "data" if disk else None
        self._ready = self._directory / "ready.json"
        self._coordinator = coordinator

    def start(self):
        assert not self.is_running
        self._ready.unlink(missing_ok=True)
        self.starts += 1
        port = self.address.rpartition(":")[2] if self.addresses else "0"
        command = [*TETHERED, self.kind, "--coordinator", self._coordinator, "--port", port]
        if self._disk is not None:
            command += ["--data-dir", str(self._disk)]
        with (self._directory / "log").open("ab") as log:
            self.process = programs.Popen(
                [*command, "--rest-port", "0", "--ready-file", str(self._ready)],
                stdin=subprocess.PIPE,
                stderr=log,
                env={**os.environ, **self._environment},
            )

    async def started(self):
        """Return when it is ready; start it again if ZooKeeper did not answer, as who runs it would."""
        async with asyncio.timeout(LONG_S):
            while not self._ready.exists():
                if self.process.poll() == EXIT_CODES[OwnershipError]:
                    self.start()
                assert self.is_running, f"{self.name} ended: {self.log()[-3000:]}"
                await asyncio.sleep(POLL_S)  # nothing announces a file
        self.addresses = json.loads(self._ready.read_text())

    @property
    def address(self):
        return self.addresses["segmentstore" if self.kind == "segmentstore" else "controller"]

    @property
    def endpoint(self):
        host, _, port = self.address.rpartition(":")
        return host, int(port)

    @property
    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def log(self):
        return (self._directory / "log").read_text(errors="replace")

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def lose_disk(self):
        """Delete the directory of a process that was killed, if it has one that may be lost."""
        if self._disk is not None:
            shutil.rmtree(self._disk)

    async def stop(self):
        """End it in order, and return its exit code."""
        self.signal(signal.SIGTERM)
        return await asyncio.to_thread(self.process.wait, LONG_S)


def in_bucket(s3):
    """Return places of logs and chunks in a small S3 server."""
    end = f"?anonymous=true&endpoint=http://127.0.0.1:{s3.port}&region=us-east-1"
    return [f"s3://bucket/{each}{end}" for each in ("logs", "chunks")]


class Processes:
    """All of them; the end of the context kills them."""

    def __init__(
        self,
        directory,
        *,
        stores=3,
        controllers=2,
        containers=6,
        buckets=4,
        session_s=6.0,
        environment=None,
        places=None,
    ):
        """``environment`` is that of controllers; ``places`` are URIs of logs and chunks that are on no disk
        of a store: stores share no files then.
        """
        self.directory = directory
        self.containers, self.buckets = containers, buckets
        (directory / "zookeeper").mkdir(parents=True)
        self.zookeeper = ZooKeeperServer(directory / "zookeeper")
        self._location = f"zk://127.0.0.1:{self.zookeeper.port}/storm"
        coordinator = f"{self._location}?session_s={session_s}&margin_s={session_s / 6:.2f}"
        self._places = places or [f"file://{directory}/{each}" for each in ("logs", "chunks")]
        self.stores = [
            Member("segmentstore", f"store-{number}", directory, coordinator, {}, disk=places is not None)
            for number in range(stores)
        ]
        self.controllers = [
            Member("controller", f"controller-{number}", directory, coordinator, environment or {})
            for number in range(controllers)
        ]

    @property
    def members(self):
        return [*self.stores, *self.controllers]

    @property
    def uri(self):
        return "tcp://" + ",".join(each.address for each in self.controllers)

    async def __aenter__(self):
        try:
            await asyncio.to_thread(self.zookeeper.start)
            await self._give_birth()
            for each in self.members:
                each.start()
            for each in self.members:
                await each.started()
        except BaseException:
            self._kill_all()
            raise
        return self

    async def __aexit__(self, *_):
        self._kill_all()

    def _kill_all(self):
        for each in self.members:
            each.kill()
        self.zookeeper.kill()

    async def _give_birth(self):
        command = [
            *(*HEADRACE, "cluster", "init", "--coordinator", self._location),
            *("--containers", str(self.containers), "--buckets", str(self.buckets)),
            *("--log", self._places[0], "--storage", self._places[1]),
        ]
        await asyncio.to_thread(programs.run, command, stdout=subprocess.DEVNULL, check=True)

    async def seen(self):
        """Return what ``cluster status`` says."""
        config = ZooKeeperConfig(session_s=10.0)
        coordinator = make_coordinator(CoordinatorLocation.parse(self._location), SystemThreads(), config)
        session = await coordinator.open()
        try:
            return document_of(await look(session))
        finally:
            await session.close()

    async def leader(self):
        """Return the controller that leads, once one does."""
        async with asyncio.timeout(LONG_S):
            while True:
                with suppress(HeadraceError):
                    leader = (await self.seen())["leader"]
                    for each in self.controllers:
                        if each.is_running and each.addresses.get("rest") == leader:
                            return each
                await asyncio.sleep(POLL_S)

    async def served(self):
        """Wait until every container and every bucket is served, and nothing else is wrong."""
        found = None
        try:
            async with asyncio.timeout(LONG_S):
                while (found := await self.seen())["problems"]:  # noqa: ASYNC110
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            raise AssertionError(f"still: {found['problems']}") from None
        return found
