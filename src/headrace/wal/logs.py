"""The logs of a system, one per container: which there are, what one of them holds, how one is made.

This is the seam between the write-ahead logs and everything that has to do with several of them: a server
that starts, a rebuild, checks and inspections. Wherever the logs are kept, they are reached through it;
``stores`` makes it.

Looking (:class:`FoundLogs`) is for tools, and for a server before it serves: its calls may wait. It takes no
log from its owner and changes nothing. Owning (:class:`Logs`) is for the process of the containers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from headrace.errors import SnapshotLostError
from headrace.wal.contract import Wal
from headrace.wal.log_system import LogSystem

T = TypeVar("T")

_ATTEMPTS: Final = 5


@dataclass(slots=True)
class LogFrame:
    """One living record: a data frame and where it lies. ``payload`` is valid until the next one."""

    file: str
    """The file of the log; of a log without files whatever it calls its parts."""

    offset: int
    """In ``file``."""

    address: int
    epoch: int
    """Container epoch."""
    payload: memoryview


class LogSnapshot(Protocol):
    """A log as it was at one moment."""

    @property
    def place(self) -> str:
        """Where the log is, in the words of messages."""

    @property
    def problem(self) -> str:
        """Why an owner would refuse this log; empty if it would not."""

    @property
    def epoch(self) -> int:
        """The container epoch of its owner then; 0 if that cannot be known."""

    @property
    def first_address(self) -> int | None:
        """The truncation point; None of a log with a problem."""

    @property
    def next_address(self) -> int | None:
        """One more than the last address; None of a log with a problem."""

    def frames(self) -> Iterator[LogFrame]:
        """Yield the log from its truncation point. Of a damaged log: what lies in front of the damage.

        Raises:
            DataCorruptionError: behind the last readable frame of a damaged log.
            SnapshotLostError: its owner has truncated what was to be read; take another snapshot.
            OSError: it cannot be read.
        """


class FoundLog(Protocol):
    """The log of one container, which may be there or not."""

    @property
    def place(self) -> str:
        """Where the log is or would be, in the words of messages."""

    def is_begun(self) -> bool:
        """Whether its next owner finds anything of it, damaged or not. Otherwise it would make an empty log:
        right for what a start that died has left, and wrong where a log was lost.

        Raises:
            OSError: it cannot be read.
        """

    def snapshot(self) -> LogSnapshot:
        """Return the log as it is now.

        Raises:
            DataCorruptionError: there is no log.
            SnapshotLostError: its owner truncated it again and again while it was read.
            OSError: it cannot be read.
        """


class FoundLogs(Protocol):
    """All logs of a system, for looking only."""

    def numbers(self) -> list[int]:
        """Return the containers that have a place for their log, in order, whatever it holds.

        Raises:
            OSError: that cannot be read.
        """

    def log(self, container: int) -> FoundLog:
        """Return the log of a container; nothing is read yet."""


class OutsideLogs(FoundLogs, Protocol):
    """Logs that are not in a data directory, so that any system could claim them. Calls wait for the place.

    Each raises WalWriteError if the place does not answer.
    """

    def find_system(self) -> LogSystem | None:
        """Return whose logs these are, None if nobody has claimed the place.

        Raises:
            DataCorruptionError: that is damaged.
        """

    def claim_system(self, system: LogSystem) -> LogSystem:
        """Claim the place for a system; return whose it is, which may be another's.

        Raises:
            DataCorruptionError: that is damaged.
            StorageFullError: it has no space.
        """

    def prove(self) -> None:
        """Check that the place is fit to have logs, before the first one is made.

        Raises:
            InvalidArgumentError, UnsupportedError: it is not.
            StorageFullError, StorageReadError, StorageWriteError: it does not answer, or has no space.
        """


class Logs(FoundLogs, Protocol):
    """All logs of a system, for the process that owns its containers."""

    def make_wal(self, container: int) -> Wal:
        """Return the log of a container for an owner, not open yet. Each call returns a new one."""

    async def begin(self, container: int, container_epoch: int) -> None:
        """Make an empty log, durably, whose first owner has ``container_epoch``: of a system that is rebuilt.

        There is none before, see :meth:`delete`; until that owner has opened it, it is not begun.

        Raises:
            OSError, WalWriteError: it is not made, or not whole: delete it, and repeat.
        """

    async def delete(self, container: int) -> None:
        """Delete a log that has no owner, and all that is left of it, durably. If there is none: nothing.

        Raises:
            OSError: not all of it is deleted. May be repeated.
        """

    async def close(self) -> None:
        """Release what all of them share, once each is closed. Idempotent."""


def look_steadily(look: Callable[[], T]) -> T:
    """Return what ``look`` returns, and look again if an owner truncated the log meanwhile.

    Raises:
        SnapshotLostError: it did so again and again.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return look()
        except SnapshotLostError:
            continue
    return look()
