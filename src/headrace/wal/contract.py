"""The contract of a write-ahead log: ordered, fenced, durable records. Every implementation passes one kit.

A log belongs to one container. ``open`` takes exclusive ownership: it fences every earlier owner,
advances the container epoch durably, and only then may records be read and frames appended.
Acknowledgements come in submission order; an acknowledged frame implies all earlier ones are durable.
After a newer owner finished ``open``, no frame of an older owner is ever acknowledged: it fails with
FencedOutError.

Frames are buffers lent by the log so that the caller serialises straight into what is written: the
payload is copied once, from the socket to the frame. All methods are called on the owner's event loop;
callbacks run there. Appending waits for nothing; calls that may need a message over a network are
asynchronous.

On full storage frames do not fail: they wait, unanswered, until there is space. So the owner has no free
frames in the end (back-pressure), and whatever does not append goes on.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from headrace.runtime.latency import LATENCY_EDGES_S, no_latencies


class WalFrame(Protocol):
    """A writable buffer lent by the log until it is released."""

    view: memoryview
    """Where the content goes: ``view[0:length]``. The log's own header and padding lie outside
    of it.
    """

    length: int
    """Bytes of content; set by the caller before ``append``."""

    address: int
    """Place of the frame in the log; set by ``append``. Strictly increasing."""


@dataclass(slots=True)
class WalRecord:
    """One record met when reading the log back: its address and its content (valid until the next one)."""

    address: int
    payload: memoryview


@dataclass(slots=True)
class WalStatistics:
    """Counters since open and gauges of now. Bytes are of content, but for ``log_bytes``."""

    frames_written: int = 0
    """Acknowledged."""

    bytes_written: int = 0
    frames_in_flight: int = 0
    """Without an answer."""

    frames_queued: int = 0
    """Of those in flight: not handed to the storage yet."""

    bytes_in_flight: int = 0
    frames_free: int = 0
    write_seconds_total: float = 0.0
    """From ``append`` to the answer."""

    write_seconds_last: float = 0.0
    write_seconds_max: float = 0.0
    write_by_bucket: list[int] = field(default_factory=no_latencies)
    """Frames by ``LATENCY_EDGES_S``."""

    disk_writes: int = 0
    """Durable writes of one or more frames each."""

    loop_writes: int = 0
    """Of these: made by the event loop itself, not by a thread."""

    disk_seconds_total: float = 0.0
    """From the hand-over of a durable write to its end, as the loop sees it."""

    disk_by_bucket: list[int] = field(default_factory=no_latencies)
    """Durable writes by ``LATENCY_EDGES_S``."""

    log_bytes: int = 0
    """What the log holds, with headers and padding."""

    space_waits: int = 0
    """How often the log has waited for space."""

    space_waiting: int = 0
    """Whether it waits now: 0 if not."""

    degraded: int = 0
    """Whether what is appended now has fewer copies than wanted: 0 if not."""

    def count_frame(self, length: int, seconds: float) -> None:
        """Add one acknowledged frame."""
        self.frames_written += 1
        self.bytes_written += length
        self.write_seconds_last = seconds
        self.write_seconds_total += seconds
        self.write_seconds_max = max(self.write_seconds_max, seconds)
        self.write_by_bucket[bisect_left(LATENCY_EDGES_S, seconds)] += 1

    def copy(self) -> WalStatistics:
        """Return what they are now."""
        return replace(
            self, write_by_bucket=list(self.write_by_bucket), disk_by_bucket=list(self.disk_by_bucket)
        )


class Wal(Protocol):
    """One container's write-ahead log."""

    @property
    def epoch(self) -> int:
        """The container epoch of this owner; valid after ``open``."""

    @property
    def frame_bytes_max(self) -> int:
        """Capacity of a frame's content, in bytes."""

    async def open(self) -> None:
        """Take ownership, fence earlier owners, make the new container epoch durable.

        Raises:
            DataCorruptionError: the owner record or a record header in the middle of the log is damaged.
            StorageFullError: too little space to take ownership; no record was lost, try again later.
            FencedOutError: another process took ownership meanwhile.
            WalWriteError: the disk failed; try again.
            ClosedError: ``close`` was called meanwhile.

        After an error the instance is good for ``close`` only.
        """

    def records(self) -> AsyncGenerator[WalRecord, None]:
        """Iterate the log from its truncation point, once, after ``open`` and before the first ``append``.

        A torn tail ends the iteration silently (it was never acknowledged). Damage in front of a valid
        record is not a tail: it raises.

        A step waits or does not: records are fetched many at a time, and it yields to the loop only then. A
        log in files reads on the loop, a few MiB at a time, which ``open`` has just read, too. An iteration
        that is given up has to be closed (``contextlib.aclosing``).

        Raises:
            DataCorruptionError: with path and offset.
        """

    def copy_records(self) -> AsyncGenerator[list[bytes], None]:
        """Iterate what the log holds now, in order, a few MiB at a time, while appends go on.

        From the truncation point to the last record that was acknowledged before the call, at least. Whoever
        may have been fenced meanwhile has to ask :meth:`is_fenced` afterwards. Give it up as :meth:`records`.

        Raises:
            SnapshotLostError: the log was truncated meanwhile; begin anew.
            DataCorruptionError: the log is damaged.
            WalWriteError: it cannot be read now.
        """

    def acquire_frame(self) -> WalFrame | None:
        """Lend an empty frame, or None if all are in use (bounded pool: this is the back-pressure).

        Raises:
            OSError: the system gives no memory for one; nothing was lent.
        """

    def prepare_frames(self, count: int) -> None:
        """Make sure that ``count`` calls of ``acquire_frame`` find memory in this iteration of the loop.

        Lends nothing; cheap if frames have been released.

        Raises:
            OSError: the system gives none.
        """

    def release_frame(self, frame: WalFrame) -> None:
        """Release a frame, written or not. Calls the ``on_frame_free`` hook."""

    @property
    def frames_free(self) -> int:
        """How many frames ``acquire_frame`` would lend now. Cheap."""

    @property
    def slots_free(self) -> int:
        """How many frames could be handed over now without waiting behind one another."""

    @property
    def write_seconds_last(self) -> float:
        """From ``append`` to the answer, for the frame that was acknowledged last. Cheap."""

    def append(self, frame: WalFrame, done: Callable[[WalFrame, Exception | None], None]) -> None:
        """Write ``frame`` durably; ``done`` is called later on the loop, in submission order.

        The error is None, FencedOutError, StorageFullError (after ``stop_waiting``; the log is still
        consistent) or WalWriteError. After any error every later frame fails too; the log must be opened
        anew.
        """

    async def is_fenced(self) -> bool:
        """Say whether a newer owner exists, so that nothing found here proves anything.

        False: there was none at some moment after this was called, so that what the caller had found before
        was true then. It says nothing of what is found later. False also if that cannot be known (any more).

        Costs one short read, or a message and its answer: it ends in a bounded time.
        """

    def stop_waiting(self) -> None:
        """Answer frames that find no space with StorageFullError from now on, instead of waiting.

        For an owner that is about to end. ``close`` does the same first.
        """

    def set_on_frame_free(self, hook: Callable[[], None] | None) -> None:
        """Install the hook that is called whenever a frame returns to the pool."""

    async def separate(self) -> None:
        """Store what is appended next apart from all before it, so that truncating there frees all of that.

        A log in files goes on in a new one.

        Best effort: where that is not possible now, nothing changes.
        """

    async def truncate(self, address: int) -> None:
        """Drop records strictly before ``address``; granularity is the implementation's, never more.

        Raises:
            FencedOutError: a newer owner has taken the log; nothing was dropped.
            DirectoryLockedError: the lock was taken for too long; nothing was dropped. May be repeated.
            WalWriteError: whether the records are dropped is unknown. May be repeated.
        """

    async def purge_freed(self) -> bool:
        """Delete, durably, what truncations have freed and the log retains, for reuse or because it deletes
        later.

        Returns:
            False: freed bytes may be left where living records lie. Then :meth:`separate`, append, truncate
            and ask again; nothing is retained until this returns True.

        Raises:
            FencedOutError, DirectoryLockedError, WalWriteError: as :meth:`truncate`. May be repeated.
        """

    async def close(self) -> None:
        """Wait for frames in flight, then release files and threads. Idempotent.

        It comes to its end although its caller is cancelled; a second caller waits for that end.

        Raises:
            WalWriteError: something could not be closed without an error; all else was released.
        """

    def statistics(self) -> WalStatistics: ...
