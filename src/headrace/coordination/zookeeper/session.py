"""A session with ZooKeeper; see the contract."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

from headrace.coordination.lease import Lease
from headrace.coordination.node import Node, check_data, check_path, check_version, parents_of
from headrace.coordination.zookeeper.link import Link
from headrace.coordination.zookeeper.watches import Key, Signal, Watches
from headrace.errors import (
    ConnectionLostError,
    MetadataConflictError,
    NodeExistsError,
    NoSuchNodeError,
    SessionExpiredError,
)
from headrace.runtime.blocking import Threads
from headrace.runtime.supervisor import Supervisor

_CREATE_TRIES: Final = 10
"""While others delete the parents that were just made."""
_SIGNS_PER_SESSION: Final = 3
"""Of life, at least, in the time after which the session would end without one."""


class ZooKeeperSession:
    """One member, from ``open`` until its session is closed or expires; then its client is stopped."""

    def __init__(self, link: Link, root: str, lease: Lease, threads: Threads) -> None:
        self.lease = lease
        self._link = link
        self._root = root
        self._threads = threads
        self._watches = Watches()
        self._supervisor = Supervisor("zookeeper-session")
        self._closing = False
        link.on_answer = lease.renew
        link.on_connected = self._watches.notify_all
        link.on_over = self._on_over
        self._supervisor.spawn("signs of life", self._live())

    @property
    def session_id(self) -> int:
        """As the logs of ZooKeeper have it."""
        return self._link.session_id

    async def create(
        self, path: str, data: bytes, *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        check_path(path)
        check_data(data)
        for _ in range(_CREATE_TRIES):
            try:
                made = await self._create(path, data, ephemeral=ephemeral, sequential=sequential)
            except NoSuchNodeError:
                await self._create_parents(path)
            else:
                return made.removeprefix(f"{self._root}/")
        raise MetadataConflictError(f"others delete the nodes above {path}")

    async def read(self, path: str) -> Node | None:
        check_path(path)
        try:
            data, stat = await self._link.read(lambda client: client.get_async(self._full(path)), path)
        except NoSuchNodeError:
            return None
        return Node(data or b"", stat.version)

    async def children(self, path: str) -> list[str]:
        check_path(path)
        try:
            names = await self._link.read(lambda client: client.get_children_async(self._full(path)), path)
        except NoSuchNodeError:
            return []
        return sorted(names)

    async def write(self, path: str, data: bytes, version: int) -> int:
        check_path(path)
        check_data(data)
        check_version(version)
        stat = await self._link.ask_leader(
            lambda client: client.set_async(self._full(path), data, version), path
        )
        new: int = stat.version
        return new

    async def delete(self, path: str, version: int) -> None:
        check_path(path)
        check_version(version)
        await self._link.ask_leader(lambda client: client.delete_async(self._full(path), version), path)

    def watch(self, path: str) -> AsyncIterator[None]:
        check_path(path)
        return self._watch((path, False))

    def watch_children(self, path: str) -> AsyncIterator[None]:
        check_path(path)
        return self._watch((path, True))

    async def close(self) -> None:
        if not self._link.is_over:
            self._closing = True
            self._link.stop(self._threads, gently=True)
        await self._link.stopped.wait()
        await self._supervisor.stop()

    # ---------------------------------------------------------------------------------- inside

    def _full(self, path: str) -> str:
        return f"{self._root}/{path}"

    async def _create(self, path: str, data: bytes, *, ephemeral: bool, sequential: bool) -> str:
        made: str = await self._link.ask_leader(
            lambda client: client.create_async(
                self._full(path), data, ephemeral=ephemeral, sequence=sequential
            ),
            path,
        )
        return made

    async def _create_parents(self, path: str) -> None:
        for parent in parents_of(path):
            with suppress(NodeExistsError):
                await self._create(parent, b"", ephemeral=False, sequential=False)

    async def _watch(self, key: Key) -> AsyncIterator[None]:
        self._link.check_open()
        changed = self._watches.add(key)
        signal = Signal(key, self._on_signal)
        try:
            while True:
                await changed.wait()
                changed.clear()
                await self._set_watch(key, signal)
                yield
        finally:
            self._watches.remove(key, changed)

    async def _set_watch(self, key: Key, signal: Signal) -> None:
        """Let the server tell the next change; return when it will."""
        path, is_list = key
        full = self._full(path)
        while True:
            try:
                if is_list:
                    with suppress(NoSuchNodeError):
                        await self._link.ask(
                            lambda client: client.get_children_async(full, watch=signal), path
                        )
                        return
                # That the node is made is told by the other kind of watch.
                found = await self._link.ask(lambda client: client.exists_async(full, watch=signal), path)
                if found is None or not is_list:
                    return
            except ConnectionLostError:
                self._link.check_open()

    def _on_signal(self, key: Key) -> None:
        """Notify the watches of a key. In a thread of kazoo."""
        self._link.post(self._watches.notify, key)

    async def _live(self) -> None:
        while True:
            try:
                await self._link.sync()
                await asyncio.sleep(self._link.granted_s / _SIGNS_PER_SESSION)
            except ConnectionLostError:
                continue  # it waits for the connection
            except SessionExpiredError:
                return

    def _on_over(self) -> None:
        self.lease.end()
        self._watches.notify_all()
        if not self._closing:
            self._link.stop(self._threads, gently=False)
