"""One client of kazoo, which is one session of ZooKeeper: from the event loop to its threads and back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.protocol.states import KazooState
from kazoo.retry import KazooRetry
from kazoo.security import CREATOR_ALL_ACL

from headrace.coordination.zookeeper.config import ZooKeeperConfig
from headrace.coordination.zookeeper.connections import Connections
from headrace.coordination.zookeeper.errors import is_answer, is_over, to_error
from headrace.coordination.zookeeper.identity import Identity
from headrace.errors import ConnectionLostError, SessionExpiredError
from headrace.model.endpoint import Endpoint
from headrace.runtime.blocking import Threads

_logger = logging.getLogger(__name__)
_kazoo_logger = logging.getLogger(f"{__name__}.kazoo")
_kazoo_logger.setLevel(logging.ERROR)  # each attempt to connect is a warning; what matters is logged here

_RECONNECT_S: Final = 0.05
_RECONNECT_S_MAX: Final = 1.0
_ANSWER_SHARE: Final = 2 / 3
"""Of the time of the session: a request that takes longer breaks the connection, while another server can
still be found."""

Request = Callable[[KazooClient], Any]
"""Hands one request to kazoo, without waiting; returns what will hold the answer."""


class Link:
    """Sends requests and hands their answers to the loop on which it was made. It ends once."""

    def __init__(
        self, servers: Sequence[Endpoint], root: str, config: ZooKeeperConfig, identity: Identity
    ) -> None:
        self.on_connected: Callable[[], None] = lambda: None
        """Called on the loop when the connection is there again."""
        self.on_over: Callable[[], None] = lambda: None
        """Called on the loop when the session has ended, once."""
        self.on_answer: Callable[[float], None] = lambda _: None
        """Called on the loop when a request that passed the leader was answered, with its time of sending."""
        self.stopped = asyncio.Event()
        """Set when the threads of kazoo have ended."""
        self._loop = asyncio.get_running_loop()
        self._root = root
        self._asked_s = config.session_s
        self._over = False
        self._connected = asyncio.Event()
        self._connections = Connections(config.session_s / (len(servers) + 1), identity.tls)
        self._client = KazooClient(
            hosts=",".join(map(str, servers)),
            timeout=config.session_s,
            handler=self._connections,
            connection_retry=KazooRetry(max_tries=-1, delay=_RECONNECT_S, max_delay=_RECONNECT_S_MAX),
            auth_data=[] if identity.digest is None else [("digest", identity.digest)],
            default_acl=None if identity.digest is None else CREATOR_ALL_ACL,
            logger=_kazoo_logger,
        )
        self._client.add_listener(self._on_state)

    @property
    def granted_s(self) -> float:
        """The time of the session as the server granted it; before that, as it will be asked for."""
        return self._connections.granted_s or self._asked_s

    @property
    def answer_s(self) -> float:
        """How long a request may take."""
        return self.granted_s * _ANSWER_SHARE

    @property
    def session_id(self) -> int:
        return self._connections.session_id

    @property
    def last_error(self) -> OSError | None:
        """Why the last attempt to connect failed."""
        return self._connections.last_error

    @property
    def is_over(self) -> bool:
        return self._over

    async def start(self) -> None:
        """Connect; return when the session has begun. It tries for as long as the caller waits."""
        self._client.start_async()
        await self._connected.wait()
        self._check()

    def check_open(self) -> None:
        """Raises SessionExpiredError."""
        self._check()

    # ---------------------------------------------------------------------------------- requests

    async def ask(self, request: Request, path: str) -> Any:
        """Send a request as soon as there is a connection; return its answer.

        Raises:
            SessionExpiredError: it was not sent, and will not be.
            ConnectionLostError: there was no answer in time; it may have been carried out, or will be.
            HeadraceError: the servers refused it.
        """
        _, answer = await self._send(request, path)
        return answer

    async def ask_leader(self, request: Request, path: str) -> Any:
        """Like :meth:`ask`, for a request that the leader of the servers answers: it proves that the session
        lives.

        Any other server answers from its memory, for a while even without a leader, which may end the
        session meanwhile.
        """
        try:
            sent, answer = await self._send(request, path, proves=True)
        except _Refused as refused:
            self.on_answer(refused.sent)
            raise refused.error from None
        self.on_answer(sent)
        return answer

    async def read(self, request: Request, path: str) -> Any:
        """Like :meth:`ask_leader`, for a read: of the newest state, since the server first catches up with
        the leader; repeated when the connection breaks, for the time of a session.
        """
        until = self._loop.time() + self.granted_s
        while True:
            try:
                return await self.ask_leader(lambda client: _SyncedRead(client, self._root, request), path)
            except ConnectionLostError:
                if self._loop.time() >= until:
                    raise

    async def sync(self) -> None:
        """Let the server catch up with the leader."""
        await self.ask_leader(lambda client: client.sync_async(self._root), self._root)

    async def _send(self, request: Request, path: str, *, proves: bool = False) -> tuple[float, Any]:
        self._check()
        answer_s = self.answer_s
        try:
            async with asyncio.timeout(answer_s):
                await self._connected.wait()
        except TimeoutError:
            raise ConnectionLostError("there is no connection with ZooKeeper") from None
        self._check()
        sent = self._loop.time()
        future: asyncio.Future[Any] = self._loop.create_future()
        request(self._client).rawlink(lambda result: self._post(_deliver, future, result))
        try:
            async with asyncio.timeout(answer_s):
                return sent, await future
        except TimeoutError:
            self._connections.cut()
            raise ConnectionLostError(f"ZooKeeper did not answer within {answer_s:.1f} s") from None
        except _KazooError as error:
            if is_over(error.inner):
                self._on_over()
            found = to_error(error.inner, path)
            if proves and is_answer(error.inner):
                raise _Refused(sent, found) from None
            raise found from error.inner

    # ---------------------------------------------------------------------------------- the end

    def stop(self, threads: Threads, *, gently: bool) -> None:
        """End the session, at the servers too if they answer and ``gently``; ``stopped`` says when."""
        patience_s = self.answer_s if gently and self._connected.is_set() else 0.0
        self._on_over()
        pool = threads.pool(1, "zookeeper-stop")
        patience = self._loop.call_later(patience_s, self._connections.end)

        def done(_: object, error: BaseException | None) -> None:
            patience.cancel()
            self._connections.end()
            pool.close()
            if error is not None:
                _logger.warning("a client of ZooKeeper did not stop cleanly: %r", error)
            self.stopped.set()

        pool.submit(self._stop_client, (), done)

    def _stop_client(self) -> None:
        """Block until the threads of kazoo have ended."""
        self._client.stop()
        self._client.close()

    # ---------------------------------------------------------------------------------- inside

    def _on_state(self, state: KazooState) -> None:
        """Hand a change to the loop. In the thread of kazoo that connects."""
        if state == KazooState.LOST:
            self._connections.end()  # before it begins another session, which it does by itself
        self._post(self._on_loop, state)

    def _on_loop(self, state: KazooState) -> None:
        if self._over:
            return
        if state == KazooState.LOST:
            _logger.warning("session %#x with ZooKeeper is over", self.session_id)
            self._on_over()
        elif state == KazooState.CONNECTED:
            _logger.info("session %#x has a connection with ZooKeeper", self.session_id)
            self._connected.set()
            self.on_connected()
        else:
            _logger.warning("session %#x has no connection with ZooKeeper", self.session_id)
            self._connected.clear()

    def _on_over(self) -> None:
        if not self._over:
            self._over = True
            self._connected.set()  # whatever waits for it looks
            self.on_over()

    def _check(self) -> None:
        if self._over:
            raise SessionExpiredError("the session with ZooKeeper is over")

    def post(self, callback: Callable[..., None], *args: Any) -> None:
        """Call on the loop. From any thread."""
        self._post(callback, *args)

    def _post(self, callback: Callable[..., None], *args: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed: nothing waits
            self._loop.call_soon_threadsafe(callback, *args)


class _KazooError(Exception):
    """Carries an error of kazoo, which several requests may share, to one of them."""

    def __init__(self, inner: BaseException) -> None:
        super().__init__(inner)
        self.inner = inner


class _Refused(Exception):  # noqa: N818 - it never leaves the link
    """The servers answered with an error."""

    def __init__(self, sent: float, error: Exception) -> None:
        super().__init__(error)
        self.sent = sent
        self.error = error


class _SyncedRead:
    """Two requests, sent one behind the other and answered in this order, as one."""

    def __init__(self, client: KazooClient, root: str, request: Request) -> None:
        self._synced = client.sync_async(root)
        self._read = request(client)

    def rawlink(self, callback: Callable[[Any], None]) -> None:
        self._read.rawlink(lambda read: callback(self._synced if self._synced.exception else read))


def _deliver(future: asyncio.Future[Any], result: Any) -> None:
    if future.done():
        return
    if result.exception is None:
        future.set_result(result.value)
    else:
        future.set_exception(_KazooError(result.exception))
