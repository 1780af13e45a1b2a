"""The writers of one connection: set up, set up again, refused. Each has a session for its appends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from headrace.errors import (
    ClosedError,
    HeadraceError,
    InvalidArgumentError,
    ProtocolError,
    TooManyWritersError,
)
from headrace.model.attributes import is_core_attribute
from headrace.runtime.deadlines import Deadlines
from headrace.security.permission import Permission
from headrace.segmentstore.container.append_target import AppendTarget
from headrace.segmentstore.ingress.append_session import AppendSession
from headrace.segmentstore.ingress.blocked import SETUP
from headrace.segmentstore.ingress.charges import WRITER_BYTES, Charges
from headrace.segmentstore.ingress.home import ConnectionHome, ServedConnection
from headrace.wire.commands import SetupAppend
from headrace.wire.server_session import ServerSession

_logger = logging.getLogger(__name__)


class ConnectionWriters:
    """Writers by their ids. Runs on the store's loop."""

    def __init__(self, home: ConnectionHome, connection: ServedConnection, session: ServerSession) -> None:
        self._home = home
        self._connection = connection
        self._session = session
        self._writers: dict[bytes, AppendSession] = {}
        self._charges = Charges(home.writers)
        self._refusals = Charges(home.waiting_refusals)
        self._expiries: Deadlines[bytes] = Deadlines(self._on_expired)
        """Of the tokens that writers were set up with. Appends carry none."""
        self._setup: asyncio.Task[None] | None = None
        self.setting_up = False
        """Whether a writer waits to be set up."""

    @property
    def count(self) -> int:
        return len(self._writers)

    @property
    def busy_count(self) -> int:
        """Writers with appends in flight."""
        return sum(writer.in_flight for writer in self._writers.values())

    def get(self, writer_id: bytes) -> AppendSession:
        """Return a writer that was set up. Raises ProtocolError."""
        writer = self._writers.get(writer_id)
        if writer is None:
            raise ProtocolError(f"writer {writer_id.hex()} appends without having been set up")
        return writer

    def close(self) -> None:
        """The connection is lost."""
        if self._setup is not None:
            self._setup.cancel()  # else a stalled log would accumulate those of lost connections
        for writer in self._writers.values():
            writer.target.close()
        self._writers.clear()
        self._expiries.close()
        self._charges.close()
        self._refusals.close()

    # -------------------------------------------------------------------------------------- setting up

    def set_up(self, command: SetupAppend) -> bool:
        """Set a writer up, or refuse it; return whether SETUP has to block the connection meanwhile."""
        writer_id, segment = command.writer_id, command.segment
        former = self._writers.get(writer_id)
        if former is not None and former.segment != segment and former.in_flight:
            # Acknowledgements name no segment: behind this answer they would count for the new one.
            return self._wait(command, self._set_up_behind)
        try:
            left_ms = self._home.authorise(command.delegation_token, segment, Permission.READ_UPDATE)
            self._expiries.set(writer_id, left_ms)
            if is_core_attribute(writer_id):
                raise InvalidArgumentError(f"writer id {writer_id.hex()} is reserved")
            target = self._home.store.append_target(segment)
        except HeadraceError as error:
            self._refuse(command, error)
            return False
        if target is None:
            return self._wait(command, self._open_target)
        if not target.is_settled(writer_id) and self._find_busy(writer_id, segment) is None:
            # The answer must count appends of other connections. Without them it would stay wrong if the
            # segment is sealed meanwhile: the writer would send them again, to the segment's successors.
            target.close()
            return self._wait(command, self._open_target)
        try:
            self._admit(command, target)
        except HeadraceError as error:
            self._refuse(command, error)
        return False

    def _find_busy(self, writer_id: bytes, segment: str) -> AppendSession | None:
        """Return the session of a writer that is set up again, if it has appends in flight."""
        former = self._writers.get(writer_id)
        return former if former is not None and former.segment == segment and former.in_flight else None

    def _admit(self, command: SetupAppend, target: AppendTarget) -> None:
        """Answer a writer whose event number is certain. The target is closed if that fails.

        Raises:
            TooManyWritersError: the connection has too many writers.
            TooManyAttributesError: the scratch segment had too many writers.
        """
        writer_id, segment = command.writer_id, command.segment
        writer = self._find_busy(writer_id, segment)
        try:
            self._check_count(writer_id)
            target.check_writer(writer_id)
            registration = self._session.register(writer_id, segment)
        except HeadraceError:
            target.close()
            raise
        if writer is not None:
            target.close()
        else:
            former = self._writers.get(writer_id)
            if former is not None:
                former.target.close()
            else:
                self._charges.add(WRITER_BYTES)
            writer = self._writers[writer_id] = AppendSession(
                self._connection, target, registration, self._refusals
            )
        writer.on_setup(command.request_id, registration)

    def _check_count(self, writer_id: bytes) -> None:
        """Refuse a new writer beyond the limit. Raises: TooManyWritersError."""
        if self._charges.full and writer_id not in self._writers:
            self._home.totals.writers_refused += 1
            raise TooManyWritersError(self._home.writers.limit, self._home.writers.total)

    def _refuse(self, command: SetupAppend, error: Exception) -> None:
        former = self._writers.get(command.writer_id)
        if former is not None and former.segment != command.segment:
            # Its next appends are meant for the refused segment, not for the former one.
            former.target.close()
            del self._writers[command.writer_id]
            self._charges.remove(1, WRITER_BYTES)
            self._session.forget(command.writer_id)
        if command.writer_id not in self._writers:
            self._expiries.discard(command.writer_id)
        self._connection.on_error(command, error)

    def _on_expired(self, writers: Sequence[bytes]) -> None:
        """Close the connection: clients set up their writers again, with fresh tokens."""
        self._connection.close_after_replies(f"the token of writer {writers[0].hex()} has expired")

    def _wait(self, command: SetupAppend, step: Callable[[SetupAppend], Awaitable[bool]]) -> bool:
        """Run ``step`` in a task; SETUP blocks until it is done. It returns whether another step follows."""
        try:
            self._setup = self._home.supervisor.spawn("setup", self._finish(command, step))
        except ClosedError:
            self._connection.close_after_replies("the server stops")
            return False
        self.setting_up = True
        return True

    async def _finish(self, command: SetupAppend, step: Callable[[SetupAppend], Awaitable[bool]]) -> None:
        connection = self._connection
        try:
            if await step(command):
                return
        except HeadraceError as error:
            self._refuse(command, error)
        except Exception:  # a bug of ours: only this connection ends
            _logger.exception("SetupAppend from %s failed", connection.peer)
            connection.close_after_replies("internal error")
        self.setting_up = False
        connection.unblock(SETUP)
        connection.on_answered()

    async def _set_up_behind(self, command: SetupAppend) -> bool:
        """Set up a writer on another segment, once its appends to the former one are acknowledged."""
        await self._writers[command.writer_id].target.settle(command.writer_id)
        return not self._connection.is_lost and self.set_up(command)

    async def _open_target(self, command: SetupAppend) -> bool:
        """Set up a writer once its segment is active and its former appends are durable."""
        target = await self._home.store.open_target(command.segment)
        try:
            await target.settle(command.writer_id)
        except BaseException:
            target.close()
            raise
        if self._connection.is_lost:
            target.close()
        else:
            self._admit(command, target)
        return False

    def check(self) -> None:
        """Assert the invariants of each writer."""
        for writer in self._writers.values():
            writer.check()
        assert self._refusals.count >= sum(writer.refusals for writer in self._writers.values())
