"""The writers of one connection: set up, set up again, refused. What each sends goes to its session."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Protocol

from headrace.errors import (
    ClosedError,
    HeadraceError,
    InvalidArgumentError,
    ProtocolError,
    TooManyWritersError,
)
from headrace.model.attributes import is_core_attribute
from headrace.segmentstore.ingress.append_session import AppendConnection, AppendSession
from headrace.segmentstore.ingress.authorisation import Permission
from headrace.segmentstore.ingress.contract import AppendTarget
from headrace.segmentstore.ingress.home import ConnectionHome
from headrace.segmentstore.ingress.waiting_refusals import WaitingRefusals
from headrace.wire.commands import SetupAppend
from headrace.wire.commands.kinds import Request
from headrace.wire.server_session import ServerSession

_logger = logging.getLogger(__name__)


class WritersConnection(AppendConnection, Protocol):
    """What the writers need of their connection."""

    peer: str

    @property
    def is_lost(self) -> bool:
        """Whether nobody takes an answer any more."""

    def on_error(self, command: Request, error: Exception) -> None:
        """A request failed: answer, or close if there is no answer to that."""

    def on_writer_ready(self) -> None:
        """The writer that parsing waits for is set up, or was refused."""


class ConnectionWriters:
    """Writers by their ids. Runs on the store's loop."""

    __slots__ = ("_connection", "_home", "_refusals", "_session", "_setup", "_writers", "setting_up")

    def __init__(self, home: ConnectionHome, connection: WritersConnection, session: ServerSession) -> None:
        self._home = home
        self._connection = connection
        self._session = session
        self._writers: dict[bytes, AppendSession] = {}
        self._refusals = WaitingRefusals(home.waiting_refusals)
        self._setup: asyncio.Task[None] | None = None
        self.setting_up = False
        """Whether a writer waits to be set up, and its client for the answer."""

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
            self._setup.cancel()  # a log that stands would gather those of every connection that gave up
        for writer in self._writers.values():
            writer.target.close()
        self._home.writers.total -= len(self._writers)
        self._writers.clear()
        self._refusals.close()

    # -------------------------------------------------------------------------------------- setting up

    def set_up(self, command: SetupAppend) -> bool:
        """Set a writer up, or refuse it; say whether nothing may be parsed until ``on_writer_ready``."""
        writer_id, segment = command.writer_id, command.segment
        former = self._writers.get(writer_id)
        if former is not None and former.segment != segment and former.in_flight:
            # Acknowledgements name no segment: behind this answer they would count for the new one.
            return self._wait(self._set_up_behind(command, former))
        try:
            self._home.authorise(command.delegation_token, segment, Permission.READ_UPDATE)
            if is_core_attribute(writer_id):
                raise InvalidArgumentError(f"writer id {writer_id.hex()} is reserved")
            target = self._home.store.append_target(segment)
        except HeadraceError as error:
            self._refuse(command, error)
            return False
        if target is None:
            return self._wait_for_target(command)
        if not target.is_settled(writer_id) and self._find_busy(writer_id, segment) is None:
            target.close()
            return self._wait_for_target(command)
        try:
            self._admit(command, target)
        except HeadraceError as error:
            self._refuse(command, error)
        return False

    def _find_busy(self, writer_id: bytes, segment: str) -> AppendSession | None:
        """Return the session of a writer that is to be set up once more, if it has appends in flight."""
        former = self._writers.get(writer_id)
        return former if former is not None and former.segment == segment and former.in_flight else None

    def _admit(self, command: SetupAppend, target: AppendTarget) -> None:
        """Answer a writer whose event number is certain. The target is closed if that fails.

        Raises:
            TooManyWritersError: the connection has as many as it may have.
            TooManyAttributesError: the segment has had too many.
        """
        writer_id, segment = command.writer_id, command.segment
        writer = self._find_busy(writer_id, segment)
        try:
            self._check_room(writer_id)
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
                self._home.writers.total += 1
            writer = self._writers[writer_id] = AppendSession(
                self._connection, target, registration, self._refusals
            )
        writer.on_setup(command.request_id, registration)

    def _check_room(self, writer_id: bytes) -> None:
        """Refuse one writer more than there may be. Raises: TooManyWritersError."""
        bound = self._home.writers
        if len(self._writers) >= bound.limit and writer_id not in self._writers:
            self._home.totals.writers_refused += 1
            raise TooManyWritersError(bound.limit, bound.total)

    def _refuse(self, command: SetupAppend, error: Exception) -> None:
        former = self._writers.get(command.writer_id)
        if former is not None and former.segment != command.segment:
            # Its next appends are meant for a segment they cannot reach, and not for the former one.
            former.target.close()
            del self._writers[command.writer_id]
            self._home.writers.total -= 1
            self._session.forget(command.writer_id)
        self._connection.on_error(command, error)

    def _wait_for_target(self, command: SetupAppend) -> bool:
        """Have nothing more parsed until the writer is set up: its segment comes back to memory, or what it
        sent over another connection becomes durable. An answer that does not count that would be wrong for
        ever if the segment is sealed meanwhile: the writer would send it again, to the segment's successors.
        """
        return self._wait(self._open_target(command))

    def _wait(self, setting_up: Coroutine[Any, Any, None]) -> bool:
        try:
            self._setup = self._home.supervisor.spawn("setup", setting_up)
        except ClosedError:
            self._connection.close_after_replies("the server stops")
            return False
        self.setting_up = True
        return True

    async def _set_up_behind(self, command: SetupAppend, former: AppendSession) -> None:
        """Set a writer up that moves to another segment, once the former one owes it nothing."""
        connection = self._connection
        try:
            await former.target.settle(former.writer_id)
            if not connection.is_lost and self.set_up(command):
                return  # it waits for its new segment too
        except HeadraceError as error:
            self._refuse(command, error)
        except Exception:  # a bug of ours: only this connection ends
            _logger.exception("SetupAppend from %s failed", connection.peer)
            connection.close_after_replies("internal error")
        self.setting_up = False
        connection.on_writer_ready()

    async def _open_target(self, command: SetupAppend) -> None:
        connection = self._connection
        try:
            target = await self._home.store.open_target(command.segment)
            try:
                await target.settle(command.writer_id)
            except BaseException:
                target.close()
                raise
            if connection.is_lost:
                target.close()
            else:
                self._admit(command, target)
        except HeadraceError as error:
            self._refuse(command, error)
        except Exception:  # a bug of ours: only this connection ends
            _logger.exception("SetupAppend from %s failed", connection.peer)
            connection.close_after_replies("internal error")
        self.setting_up = False
        connection.on_writer_ready()

    def check(self) -> None:
        """Assert the invariants of each writer."""
        for writer in self._writers.values():
            writer.check()
        assert self._refusals.count >= sum(writer.refusals for writer in self._writers.values())
