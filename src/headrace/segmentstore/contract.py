"""The types and protocols shared by the parts of the segment store.

Nothing here does I/O. Each Protocol is implemented by exactly one package and used by others, so that no part
imports another part's driver.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from headrace.model.attributes import AttributeUpdate
from headrace.runtime.open_file import FileSpan
from headrace.segmentstore.state.segment_state import SegmentState


@dataclass(slots=True)
class SegmentInfo:
    """What callers learn about a segment: durable facts only. Lengths in bytes, time in epoch ms."""

    name: str
    start_offset: int
    length: int
    sealed: bool
    last_modified_ms: int
    stored_length: int
    attributes: Mapping[bytes, int]
    """All core attributes that are set, and the extended ones in memory."""


@dataclass(slots=True)
class ReadResult:
    """Bytes of one read, as views that stay valid until :meth:`release`.

    ``pieces`` have at most the requested number of bytes, contiguous from ``offset``; they are empty only at
    the end of a sealed segment. The caller calls ``release`` exactly once, when the bytes have been written
    to a socket or copied; the views must not be used afterwards.
    """

    offset: int
    pieces: list[memoryview] = field(default_factory=list)
    at_tail: bool = False
    end_of_segment: bool = False
    on_release: Callable[[], None] | None = None
    span: FileSpan | None = None
    """Where the bytes of the only piece are in a file, valid in the iteration of the loop of the read."""

    @property
    def length(self) -> int:
        return sum(len(piece) for piece in self.pieces)

    def to_bytes(self) -> bytes:
        """Join the pieces into one fresh object and release them."""
        try:
            return b"".join(self.pieces)
        finally:
            self.release()

    def release(self) -> None:
        if self.on_release is not None:
            done, self.on_release = self.on_release, None
            done()


# ------------------------------------------------------------------------------------------ memory log


@dataclass(slots=True)
class StoredAppend:
    """Durable, unstored bytes of adjacent appends. The bytes are in the read index."""

    sequence: int
    segment: SegmentState
    offset: int
    length: int


@dataclass(slots=True)
class StoredSeal:
    sequence: int
    segment: SegmentState


@dataclass(slots=True)
class StoredTruncate:
    sequence: int
    segment: SegmentState
    offset: int


@dataclass(slots=True)
class StoredMerge:
    """``length`` bytes of ``source`` became ``[offset, offset + length)`` of ``segment``."""

    sequence: int
    segment: SegmentState
    source: SegmentState
    offset: int
    length: int


@dataclass(slots=True)
class StoredDelete:
    sequence: int
    segment: SegmentState


@dataclass(slots=True)
class StoredCheckpoint:
    """A metadata checkpoint is durable: the log may be truncated here once all before it is stored."""

    sequence: int


StorageOperation = StoredAppend | StoredSeal | StoredTruncate | StoredMerge | StoredDelete | StoredCheckpoint


class MemoryLog(Protocol):
    """Durable operations in sequence order, waiting for the storage writer (its only consumer)."""

    def __len__(self) -> int: ...

    async def take(self, count_max: int, timeout_s: float) -> Sequence[StorageOperation]:
        """Remove and return up to ``count_max`` operations; empty after ``timeout_s`` seconds without any."""


# ------------------------------------------------------------------------------------------ read index


class StorageReader(Protocol):
    """Reads bytes that are in long-term storage."""

    async def read_some(self, segment: str, offset: int, length: int) -> bytes | bytearray | memoryview:
        """Return ``length`` bytes of ``segment`` from ``offset``.

        Fewer, at least one, if these lie in many objects or bytes behind them cannot be read.

        Raises:
            NoSuchSegmentError: long-term storage does not know the segment.
            StorageReadError: the bytes exist but cannot be read now.
            DataCorruptionError: the bytes are not those that were written.
        """

    def read_at_once(
        self, segment: str, offset: int, length: int, buffer: memoryview
    ) -> tuple[int, int, FileSpan | None]:
        """Read up to ``length`` verified bytes and those around them, without waiting.

        Returns:
            ``(begin, end, span)``: ``buffer[begin:end]`` are the bytes from ``offset`` on, ``buffer[:begin]``
            those in front of it. For an empty range the caller has to use ``read_some``.
            ``span``: the file, if it is one, from which the former were read; valid in this iteration of
            the loop. Never raises.
        """


class ReadIndex(Protocol):
    """Finds any byte of any segment of one container: in cache, storage, a merge source, or not yet appended.

    All methods run on the container's loop. Offsets and lengths are bytes.
    """

    def append(self, segment: SegmentState, offset: int, data: memoryview) -> None:
        """Copy durable bytes into the cache; ``offset`` is where the previous append of the segment ended.

        Completes waiting tail reads up to the durable length. Durable bytes are never refused: the cache
        exceeds its bound if nothing can be evicted.
        """

    def set_aside(self, change_bytes: int) -> None:
        """Reserve capacity for a frame acquired from the log; less than 0: it was applied and released."""

    def has_free_capacity(self) -> bool:
        """Whether the cache has free capacity for another frame. Called before one is acquired."""

    def begin_merge(self, target: SegmentState, offset: int, source: SegmentState, length: int) -> None:
        """``source`` became ``[offset, offset + length)`` of ``target``; reads there read the source."""

    def complete_merge(self, target: SegmentState, source: SegmentState) -> None:
        """Storage has merged the source into the target: move its cached entries, forget the source."""

    def on_changed(self, segment: SegmentState) -> None:
        """Seal, truncation, merge, deletion, stored length, or durable length by a merge, of ``segment``
        changed.

        Completes waiting tail reads that can now be answered.
        """

    async def read(self, segment: SegmentState, offset: int, length_max: int, *, wait: bool) -> ReadResult:
        """Read up to ``length_max`` bytes; at the tail of an unsealed segment wait for data if ``wait``.

        Without ``wait`` a read at the tail returns an empty result with ``at_tail`` set.

        Raises:
            SegmentTruncatedError: ``offset`` is below the start offset.
            SegmentSealedError: a waiting read met the seal without more data.
            NoSuchSegmentError: the segment was deleted or merged during the wait.
            InvalidArgumentError: negative offset, or beyond the end of a sealed segment.
        """

    def read_nowait(self, segment: SegmentState, offset: int, length_max: int) -> ReadResult | None:
        """Answer from the cache at once, or return None if that needs storage or a later append."""

    def read_direct(self, segment: SegmentState, offset: int, length: int) -> list[memoryview] | None:
        """Exactly ``length`` unstored bytes from the cache, or None (a merge is pending there).

        The views are valid until control returns to the loop twice or the bytes are marked stored, whichever
        is later: unstored bytes are never evicted.
        """

    def drop(self, segment: SegmentState) -> None:
        """The segment is removed or evicted: free its cache, end its waiting reads."""

    def free_unneeded(self, segment: SegmentState) -> None:
        """Free the extents that are not needed any more, during replay, when nothing is read or stored.

        These are all of a deleted segment, and the sources that storage has already merged into the segment:
        otherwise all segments that were merged or deleted in the log would be in the cache at once.
        """

    def unstored_bytes(self) -> int:
        """Pinned bytes: those that are cached and not stored."""

    def cache_pressure(self) -> float:
        """Fraction of its part of the cache that this container uses; 1 or more: all of it."""

    def shared_pressure(self) -> float:
        """Fraction of the shared cache that is not evictable, of all containers; 1: all of it."""

    def close(self) -> None:
        """End every waiting read with ContainerOfflineError and free the cache."""


# ------------------------------------------------------------------------------------------ for tables


class ContainerSegments(Protocol):
    """The interface of a container for its table segments. All calls run on the container's loop."""

    async def check_owner(self) -> None:
        """Check the ownership before a request to change something is answered without a write.

        A write is fenced by itself. What was found before this call was true then; what is found meanwhile or
        later may not be.

        Raises:
            FencedOutError: another process owns the container: the state here proves nothing.
            ContainerOfflineError: the container has ended.
        """

    def may_answer(self) -> bool:
        """Whether this process may give an answer now; else whoever asked has to ask the next owner."""

    def find_segment(self, name: str) -> SegmentState | None:
        """Return the live segment of that name, or None, also if it is inactive."""

    async def resolve(self, name: str, /) -> SegmentState:
        """Return the live segment of that name, activating it if inactive, or raise NoSuchSegmentError."""

    async def create(self, name: str, attributes: dict[bytes, int]) -> SegmentState:
        """Create a segment with these core attributes. Raises SegmentExistsError."""

    async def append(
        self,
        segment: SegmentState,
        /,
        data: bytes | bytearray | memoryview,
        updates: Sequence[AttributeUpdate] = (),
        expected_offset: int = -1,
    ) -> int:
        """Append atomically; return the offset at which ``data`` begins, once it is durable."""

    async def read(
        self, segment: SegmentState, offset: int, length_max: int, *, wait: bool
    ) -> ReadResult: ...

    def read_nowait(self, segment: SegmentState, offset: int, length_max: int) -> ReadResult | None:
        """Return what can be read without waiting, or None."""

    async def truncate(self, segment: SegmentState, /, offset: int) -> None: ...

    async def delete(self, segment: SegmentState) -> None: ...
