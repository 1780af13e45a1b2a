"""Opens sessions with ZooKeeper."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from kazoo.client import KazooClient

from headrace.coordination.lease import Lease
from headrace.coordination.node import parents_of
from headrace.coordination.zookeeper.config import ZooKeeperConfig
from headrace.coordination.zookeeper.identity import read_identity
from headrace.coordination.zookeeper.link import Link
from headrace.coordination.zookeeper.session import ZooKeeperSession
from headrace.errors import (
    ConnectionLostError,
    InvalidArgumentError,
    NodeExistsError,
    PreconditionError,
    SessionExpiredError,
    UnreachableError,
)
from headrace.model.endpoint import Endpoint
from headrace.runtime.blocking import Threads


class ZooKeeperCoordinator:
    """The nodes below one root of one ZooKeeper. Each session has connections and threads of its own."""

    def __init__(
        self,
        servers: Sequence[Endpoint],
        root: str,
        config: ZooKeeperConfig,
        threads: Threads,
        *,
        makes_root: bool = True,
    ) -> None:
        self._servers = tuple(servers)
        self._root = f"/{root}"
        self._config = config
        self._threads = threads
        self._makes_root = makes_root

    async def open(self) -> ZooKeeperSession:
        """See the contract.

        Raises:
            UnreachableError: no server answered for the time of a session.
            PreconditionError: the servers grant no session that is longer than the margin.
            PermissionDeniedError: this identity may not use the root.
            InvalidArgumentError: a file of certificates or the password cannot be used, or the root is
                another's to make and does not exist.
        """
        link = Link(self._servers, self._root, self._config, read_identity(self._config))
        lease: Lease | None = None
        try:
            async with asyncio.timeout(self._config.session_s):
                await link.start()
                duration_s = link.granted_s - self._config.margin_s
                if duration_s <= 0:
                    raise PreconditionError(
                        f"ZooKeeper grants sessions of {link.granted_s:g} s, which margin_s = "
                        f"{self._config.margin_s:g} uses up: lower it, or raise maxSessionTimeout there"
                    )
                lease = Lease(duration_s)  # the first request is sent now
                await self._make_root(link)
            link.check_open()
            return ZooKeeperSession(link, self._root, lease, self._threads)
        except BaseException as error:
            if lease is not None:
                lease.end()
            link.stop(self._threads, gently=True)
            if isinstance(error, TimeoutError | ConnectionLostError | SessionExpiredError):
                servers = ",".join(map(str, self._servers))
                reason = f": {link.last_error}" if link.last_error is not None else ""
                raise UnreachableError(
                    f"ZooKeeper at {servers} gave no session within {self._config.session_s:g} s{reason}"
                ) from None
            raise

    async def _make_root(self, link: Link) -> None:
        await link.sync()
        if await link.read(lambda client: client.exists_async(self._root), self._root) is not None:
            return
        if not self._makes_root:
            servers = ",".join(map(str, self._servers))
            raise InvalidArgumentError(f"ZooKeeper at {servers} has no node {self._root}")
        for each in [*parents_of(self._root)[1:], self._root]:
            with suppress(NodeExistsError):
                await link.ask_leader(partial(_create_empty, each), each)


def _create_empty(path: str, client: KazooClient) -> Any:
    return client.create_async(path, b"")
