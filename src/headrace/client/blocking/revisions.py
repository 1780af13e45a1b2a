"""Revisioned streams and shared states for threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Generic, Self, TypeVar

from headrace.client.blocking.loop_iterator import LoopIterator
from headrace.client.blocking.loop_thread import LoopThread
from headrace.client.description import waiting
from headrace.client.forks import OfOneProcess
from headrace.client.reader.event_batch import Event
from headrace.client.revisions import revisioned_stream, synchronizer
from headrace.client.revisions.revision import Revision

S = TypeVar("S")
U = TypeVar("U")


class RevisionedStream(OfOneProcess):
    """A stream of one segment whose writers agree on its order. For any number of threads."""

    def __init__(self, stream: revisioned_stream.RevisionedStream, thread: LoopThread) -> None:
        self._stream = stream
        self._thread = thread

    def __repr__(self) -> str:
        return waiting(repr(self._stream))

    def oldest(self) -> Revision:
        """Return the revision in front of the first entry that is left."""
        return self._thread.run(self._stream.oldest())

    def latest(self) -> Revision:
        """Return the revision behind the last entry."""
        return self._thread.run(self._stream.latest())

    def read(self, after: Revision | None = None) -> Iterator[Event]:
        """Iterate over the entries behind ``after``, by default behind the oldest revision.

        It ends with the last entry that there is when it is begun; ``Revision(entry.end_offset)`` is that of
        an entry.

        Raises:
            SegmentTruncatedError: the next entry was truncated; go on from :meth:`oldest`, or from the mark.
        """
        return LoopIterator(self._thread, self._stream.read(after))

    def append(self, data: bytes, after: Revision | None = None) -> Revision:
        """Append an entry, and return its revision.

        Args:
            data: the entry, at most 8 MiB.
            after: the revision that nothing may follow yet; None: whatever is there.

        Raises:
            OffsetMismatchError: something follows ``after`` already. Nothing was appended.
            SegmentSealedError: the stream was sealed. Nothing was appended.
            EventTooLargeError: nothing was appended.
        """
        return self._thread.run(self._stream.append(data, after))

    def mark(self) -> Revision | None:
        """Return where the mark is; None: nowhere. Everybody who uses the stream sees the same one."""
        return self._thread.run(self._stream.mark())

    def move_mark(self, expected: Revision | None, to: Revision) -> bool:
        """Move the mark from where it is expected; return whether it is at ``to`` then."""
        return self._thread.run(self._stream.move_mark(expected, to))

    def truncate(self, revision: Revision) -> None:
        """Drop the entries up to ``revision``."""
        self._thread.run(self._stream.truncate(revision))

    def close(self) -> None:
        """Leave. Idempotent; what was appended is durable already."""
        self._thread.finish(self._stream.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Synchronizer(OfOneProcess, Generic[S, U]):
    """A state that several processes share. For any number of threads.

    The functions that it is given are called on the thread of the client: they are short, and do not use the
    client.
    """

    def __init__(self, shared: synchronizer.Synchronizer[S, U], thread: LoopThread) -> None:
        self._shared = shared
        self._thread = thread

    def __repr__(self) -> str:
        return waiting(repr(self._shared))

    @property
    def state(self) -> S:
        """The state as it was fetched, or updated here, last. Treat it as read-only."""
        return self._shared.state

    @property
    def revision(self) -> Revision:
        """Behind the last update that :attr:`state` has."""
        return self._shared.revision

    def fetch(self) -> S:
        """Apply what the others have done meanwhile; return the state."""
        return self._thread.run(self._shared.fetch())

    def update(self, make: Callable[[S], U | list[U] | None]) -> S:
        """Change the state by what ``make`` returns: an update, a list of them, or None for no change.

        ``make`` gets the newest state, and is called again if somebody else was faster. Updates of one call
        happen together.

        Returns:
            The state right behind the updates.

        Raises:
            EventTooLargeError: the updates have more than 8 MiB. Nothing happened.
            Exception: whatever ``make``, ``apply`` or the serializer raises. Nothing happened.
        """
        return self._thread.run(self._shared.update(make))

    def compact(self) -> None:
        """Write the state as a whole, so that whoever comes need not read what led to it."""
        self._thread.run(self._shared.compact())

    def close(self) -> None:
        """Wait for updates that are under way, then leave. Idempotent."""
        self._thread.finish(self._shared.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
