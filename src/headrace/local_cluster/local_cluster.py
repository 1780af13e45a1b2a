"""Runs the processes of a local cluster: starts them, watches them, says where they are, ends them in order.

Each process is killed with this one, however that ends (``tethered.py``), and is in a session of its own, so
that Ctrl-C in a terminal reaches this process alone. What others need to know is in the ready file, which is
written anew whenever it changes.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from headrace.cluster.facts_node import FACTS, Facts, decode_facts
from headrace.cluster.facts_store import create_facts
from headrace.cluster.session_works import run_until_over, serve_sessions, wait_at_most
from headrace.cluster.watched_placement import WatchedPlacement
from headrace.coordination.contract import Coordinator, Session
from headrace.errors import InvalidArgumentError, PreconditionError
from headrace.local_cluster import tethered
from headrace.local_cluster.commands import Ports, command_of, inherited, ready_document
from headrace.local_cluster.directory import ClusterDirectory
from headrace.local_cluster.supervision import Kind, Step, Supervision
from headrace.local_cluster.zookeeper import (
    Java,
    free_port,
    write_zookeeper_config,
    zookeeper_answers,
    zookeeper_command,
)
from headrace.model.endpoint import Endpoint
from headrace.processes.cluster_store_config import ClusterStoreConfig
from headrace.processes.controller_config import ControllerServerConfig
from headrace.processes.ready_file import remove_ready_file, write_ready_file
from headrace.runtime.entropy import SystemEntropy
from headrace.runtime.settings import walk
from headrace.runtime.supervisor import Supervisor

ROOT: Final = "headrace"
"""Of the cluster, in a ZooKeeper of its own."""
_ZOOKEEPER: Final = "zookeeper"
_LOOK_S: Final = 0.05
"""Between two looks whether a process that starts is ready: nothing announces a new file."""
_VARIABLES: Final = {
    kind: {setting.variable("HEADRACE") for setting in walk(config)}
    for kind, config in ((Kind.CONTROLLER, ControllerServerConfig), (Kind.STORE, ClusterStoreConfig))
}
_EVERY_VARIABLE: Final = set().union(*_VARIABLES.values())


class LocalCluster:
    """Some controllers and stores over one coordinator. Run once.

    Args:
        directory: of the cluster.
        controllers: how many.
        stores: how many.
        coordinator: the URI of one that is there; None: a ZooKeeper is started.
        java: runs it.
        facts: of the cluster, if it has to be born.
        connect: makes a coordinator of a URI.
        containers: the number that was asked for; None: whatever there is.
        ready_file: written once clients may connect.
        restarts: whether what has ended is started again.
        on_up: called with what the ready file says, once.
        tell: says what happens to a person.
    """

    def __init__(
        self,
        directory: ClusterDirectory,
        controllers: int,
        stores: int,
        facts: Facts,
        connect: Callable[[str], Coordinator],
        on_up: Callable[[dict[str, Any]], None],
        tell: Callable[[str], None],
        *,
        coordinator: str | None = None,
        java: Java | None = None,
        containers: int | None = None,
        ready_file: Path | None = None,
        restarts: bool = True,
    ) -> None:
        assert (coordinator is None) != (java is None)
        self._directory = directory
        self._facts = facts
        self._connect = connect
        self._on_up = on_up
        self._tell = tell
        self._java = java
        self._containers = containers
        self._ready_file = ready_file
        self._kinds = {} if java is None else {_ZOOKEEPER: Kind.ZOOKEEPER}
        self._kinds |= {f"controller-{number}": Kind.CONTROLLER for number in range(1, controllers + 1)}
        self._kinds |= {f"store-{number}": Kind.STORE for number in range(1, stores + 1)}
        self._supervision = Supervision(self._kinds, restarts=restarts)
        self._zookeeper_port = 0
        if coordinator is None:
            self._zookeeper_port = free_port(directory.ports_of(_ZOOKEEPER).main)
            coordinator = f"zk://127.0.0.1:{self._zookeeper_port}/{ROOT}"
        self._coordinator = coordinator
        self._placement = WatchedPlacement(SystemEntropy())
        self._processes: dict[str, Process] = {}
        self._told: dict[str, dict[str, Any]] = {}
        self._gone: set[str] = set()
        """Ids of stores whose process has ended, and whose session may go on for a while."""
        self._written: dict[str, Any] | None = None
        self._is_born = False
        self._wake = asyncio.Event()
        self._supervisor = Supervisor("local cluster")
        self._following = Supervisor("placement")

    async def run(self) -> None:
        """Run until SIGTERM or SIGINT, and end everything.

        Raises:
            PreconditionError: a process did not start, or the cluster was made in another place.
            InvalidArgumentError: it has another number of containers.
            HeadraceError: what asking the coordinator raises.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._end)
        supervision = self._supervision
        self._placement.on_change(self._wake.set)
        if self._ready_file is not None:
            remove_ready_file(str(self._ready_file))
        try:
            if self._java is None:
                await self._be_born()
            while not supervision.is_over:
                self._wake.clear()
                if supervision.is_ending:
                    await self._following.stop()
                for step, name in supervision.steps(loop.time()):
                    await self._do(step, name)
                await self._look()
                self._publish()
                due_s = supervision.next_s()
                waits_s = 60.0 if due_s is None else max(0.0, due_s - loop.time())
                await wait_at_most(self._wake, _LOOK_S if supervision.starts else waits_s)
        finally:
            self._withdraw()
            await self._following.stop()
            await self._supervisor.stop()
            for process in self._processes.values():
                if process.returncode is None:
                    process.kill()
                    await process.wait()
        if supervision.failed:
            name = supervision.failed
            raise PreconditionError(
                f"{name} did not start: {self._directory.last_words(name) or 'it said nothing'} "
                f"(all of its log: {self._directory.log(name)})"
            )

    def _end(self) -> None:
        self._withdraw()
        self._supervision.end()
        self._wake.set()

    # ---- steps

    async def _do(self, step: Step, name: str) -> None:
        if step is Step.START:
            await self._start(name)
            return
        process = self._processes[name]
        if process.returncode is None:
            if step is Step.KILL:
                self._tell(f"{name} does not end, and is killed: what was acknowledged is in the logs")
            process.send_signal(signal.SIGTERM if step is Step.END else signal.SIGKILL)

    async def _start(self, name: str) -> None:
        directory = self._directory
        directory.make_way(name)
        directory.ready_file(name).unlink(missing_ok=True)
        with directory.log(name).open("ab") as log:
            process = self._processes[name] = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", tethered.__file__, str(os.getpid())),
                *self._command(name),
                stdin=DEVNULL,
                stdout=log,
                stderr=log,
                env=inherited(os.environ, _VARIABLES.get(self._kinds[name], set()), _EVERY_VARIABLE),
                start_new_session=True,
            )
        self._supervisor.spawn(name, self._wait_ended(name, process))

    def _command(self, name: str) -> list[str]:
        directory, kind = self._directory, self._kinds[name]
        if kind is Kind.ZOOKEEPER:
            assert self._java is not None
            return zookeeper_command(
                self._java, write_zookeeper_config(directory.zookeeper, self._zookeeper_port)
            )
        had = directory.ports_of(name)
        ports = Ports(*(port if port and free_port(port) == port else 0 for port in (had.main, had.rest)))
        return command_of(kind, sys.executable, self._coordinator, ports, str(directory.ready_file(name)))

    async def _wait_ended(self, name: str, process: Process) -> None:
        code = await process.wait()
        address = self._told.pop(name, {}).get("segmentstore")
        self._gone |= {
            store for store, node in self._placement.stores.items() if str(node.endpoint) == address
        }
        supervision = self._supervision
        pause_s = supervision.on_ended(name, asyncio.get_running_loop().time())
        if supervision.is_up and not supervision.is_ending:
            how = (
                f"was ended by {signal.Signals(-code).name}"
                if code < 0
                else f"has ended with exit code {code}"
            )
            then = "it is not started again" if pause_s is None else f"it is started again in {pause_s:g} s"
            self._tell(f"{name} {how}: {then}; its log: {self._directory.log(name)}")
        self._wake.set()

    # ---- what is ready

    async def _look(self) -> None:
        """Learn which processes are ready by now."""
        for name, process in self._processes.items():
            if self._supervision.is_ready(name) or process.returncode is not None:
                continue
            if self._kinds[name] is Kind.ZOOKEEPER:
                if not zookeeper_answers(self._zookeeper_port):
                    continue
                told: dict[str, Any] = {"pid": process.pid}
                ports = Ports(self._zookeeper_port)
                await self._be_born()
            elif (found := self._directory.read_ready(name, process.pid)) is not None:
                told = found
                main = told.get("controller") or told["segmentstore"]
                ports = Ports(*(Endpoint.parse(each, 0).port for each in (main, told["rest"])))
            else:
                continue
            self._told[name] = told
            self._directory.remember_ports(name, ports)
            self._supervision.on_ready(name, asyncio.get_running_loop().time())

    def _publish(self) -> None:
        """Write the ready file, if it is to say something new."""
        if not self._supervision.is_up or self._supervision.is_ending:
            return
        known = self._placement.stores
        self._gone &= known.keys()
        ids = {str(node.endpoint): store for store, node in known.items() if store not in self._gone}
        told = {name: self._told[name] for name in self._kinds if name in self._told}
        document = ready_document(self._coordinator, told, ids)
        if self._written is None:
            if len(document["stores"]) < sum("segmentstore" in each for each in told.values()):
                return  # one is not known to this process yet
            self._on_up(document)
        if document != self._written:
            self._written = document
            if self._ready_file is not None:
                write_ready_file(str(self._ready_file), document)

    def _withdraw(self) -> None:
        if self._ready_file is not None:
            remove_ready_file(str(self._ready_file))

    # ---- the cluster

    async def _be_born(self) -> None:
        """Make the cluster if there is none, and follow it. Idempotent."""
        if self._is_born:
            return
        self._is_born = True
        coordinator = self._connect(self._coordinator)
        session = await coordinator.open()
        try:
            node = await session.read(FACTS)
            if node is None:
                await create_facts(session, self._facts)
            else:
                self._check(decode_facts(node.data))
        finally:
            await session.close()

        async def follow(session: Session) -> None:
            await run_until_over(self._placement.follow(session))

        self._following.spawn("sessions", serve_sessions(coordinator, SystemEntropy(), follow))

    def _check(self, facts: Facts) -> None:
        if self._java is not None and facts.log != self._facts.log:
            raise PreconditionError(
                f"this cluster was made with its logs at {facts.log}, and the directory is at "
                f"{self._directory.path} now: move it back"
            )
        if self._containers not in {None, facts.containers}:
            raise InvalidArgumentError(
                f"this cluster has {facts.containers} containers, for ever, not {self._containers}: leave "
                "--containers out"
            )
