"""The words in which the parts of the segment store speak to each other.

Nothing here does I/O. Each Protocol is implemented by exactly one package and consumed by others, so that no
part imports another part's driver.
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
    """What a caller may know about a segment: durable facts only. Lengths in bytes, time in epoch ms."""

    name: str
    start_offset: int
    length: int
    sealed: bool
    last_modified_ms: int
    stored_length: int
    attributes: Mapping[bytes, int]
    """All core attributes that are set, and what else is in memory."""


@dataclass(slots=True)
class ReadResult:
    """Bytes of one read, as views that stay valid until :meth:`release`.

    ``pieces`` hold at most the requested number of bytes, contiguous from ``offset``; they are empty only
    at the
    end of a sealed segment. The owner calls ``release`` exactly once, when the bytes have been handed on
    (written to a socket, copied); the views must not be used afterwards.
    """

    offset: int
    pieces: list[memoryview] = field(default_factory=list)
    at_tail: bool = False
    end_of_segment: bool = False
    on_release: Callable[[], None] | None = None
    span: FileSpan | None = None
    """Where else the bytes lie that the only piece holds, in the turn of the loop in which it was read."""

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
    """A durable run of appended bytes, on its way to long-term storage. Bytes are in the read index."""

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
    """A metadata checkpoint became durable: the log may be cut here once everything before it is stored."""

    sequence: int


StorageOperation = StoredAppend | StoredSeal | StoredTruncate | StoredMerge | StoredDelete | StoredCheckpoint


class MemoryLog(Protocol):
    """Durable operations in sequence order, waiting for the storage writer (its only consumer)."""

    async def take(self, count_max: int, timeout_s: float) -> Sequence[StorageOperation]:
        """Remove and return up to ``count_max`` operations; empty after ``timeout_s`` seconds without any."""


# ------------------------------------------------------------------------------------------ read index


class StorageReader(Protocol):
    """Reads bytes that are in long-term storage."""

    async def read_some(self, segment: str, offset: int, length: int) -> bytes | bytearray | memoryview:
        """Return ``length`` bytes of ``segment`` from ``offset``.

        Fewer, but one at least, if something behind these cannot be read.

        Raises:
            NoSuchSegmentError: long-term storage does not know the segment.
            StorageReadError: the bytes exist but cannot be read now.
            DataCorruptionError: what was read is not what was written.
        """

    def read_at_once(
        self, segment: str, offset: int, length: int, buffer: memoryview
    ) -> tuple[int, int, FileSpan | None]:
        """Read up to ``length`` verified bytes and those around them, as far as that takes no waiting.

        Returns:
            ``(begin, end, span)``: ``buffer[begin:end]`` are the bytes from ``offset`` on, ``buffer[:begin]``
            those in front of it. An empty range says nothing but that ``read_some`` has to be asked.
            ``span``: the file, if it is one, out of which the former were read; good in this turn of the
            loop. Never raises.
        """


class ReadIndex(Protocol):
    """Finds any byte of any segment of one container: in cache, in storage, in a merge source, in the future.

    All methods run on the container's loop. Offsets and lengths are bytes.
    """

    def append(self, segment: SegmentState, offset: int, data: memoryview) -> None:
        """Copy durable bytes into the cache; ``offset`` is where the previous append of the segment ended.

        Completes waiting tail reads up to the durable length. Durable bytes are never refused: the cache
        grows beyond its bound if nothing can be evicted.
        """

    def set_aside(self, change_bytes: int) -> None:
        """A frame with so many bytes was taken from the log; or, less than 0, what it had was appended."""

    def has_room(self) -> bool:
        """Whether the cache has room for what another frame brings. Asked before one is taken."""

    def begin_merge(self, target: SegmentState, offset: int, source: SegmentState, length: int) -> None:
        """``source`` became ``[offset, offset + length)`` of ``target``; reads there go to the source's
        bytes.
        """

    def complete_merge(self, target: SegmentState, source: SegmentState) -> None:
        """Storage has joined the source into the target: move its cached entries over, forget the source."""

    def on_changed(self, segment: SegmentState) -> None:
        """Seal, truncation, merge, deletion, stored length, or durable length by a merge, of ``segment``
        changed.

        Completes waiting tail reads that can now be answered.
        """

    async def read(self, segment: SegmentState, offset: int, length_max: int, *, wait: bool) -> ReadResult:
        """Read up to ``length_max`` bytes; at the tail of an unsealed segment wait for data if ``wait``.

        Without ``wait`` a read at the tail answers an empty result with ``at_tail`` set.

        Raises:
            SegmentTruncatedError: ``offset`` is below the start offset.
            SegmentSealedError: a waiting read met the seal without more data.
            NoSuchSegmentError: the segment was deleted or merged away while waiting.
            InvalidArgumentError: negative offset, or beyond the end of a sealed segment.
        """

    def read_nowait(self, segment: SegmentState, offset: int, length_max: int) -> ReadResult | None:
        """Answer from the cache at once, or return None if that needs storage or the future."""

    def read_direct(self, segment: SegmentState, offset: int, length: int) -> list[memoryview] | None:
        """Exactly ``length`` cached bytes that are not yet in storage, or None (a merge is pending there).

        The views stay valid until control returns to the loop twice or the bytes are marked stored,
        whichever is later: bytes not in storage are never evicted.
        """

    def drop(self, segment: SegmentState) -> None:
        """The segment is gone: free its cache, end its waiting reads."""

    def let_go(self, segment: SegmentState) -> None:
        """While the log is replayed, and nothing is read or stored: free what nobody will ask for any more.

        That is all of a deleted segment, and the sources that storage has joined into the segment already:
        else everything that was ever merged or deleted in the log would be in the cache at once.
        """

    def unstored_bytes(self) -> int:
        """Cached bytes that may not be evicted because storage does not hold them yet."""

    def cache_pressure(self) -> float:
        """How much of the memory that the cache leaves to this container it uses; at 1 and more: all."""

    def shared_pressure(self) -> float:
        """How much of what all containers share cannot be evicted, whosever it is; at 1: all."""

    def close(self) -> None:
        """End every waiting read with ContainerOfflineError and free the cache."""


# ------------------------------------------------------------------------------------------ containers, to
# tables


class SegmentAccess(Protocol):
    """What table segments need from the container that holds them. All calls run on the container's loop."""

    async def check_owner(self) -> None:
        """Ask who owns the container before a request to change something is answered without a write.

        A write finds out by itself. An answer says what was found before this call: that was true then. What
        is found meanwhile or later may not be.

        Raises:
            FencedOutError: somebody else owns the container: what is known here proves nothing.
            ContainerOfflineError: the container has ended.
        """

    def find_segment(self, name: str) -> SegmentState | None:
        """Return the live segment of that name, or None, also if it is not in memory."""

    async def resolve(self, name: str) -> SegmentState:
        """Return the live segment of that name, back in memory if it was not, or raise NoSuchSegmentError."""

    async def create(self, name: str, attributes: dict[bytes, int]) -> SegmentState:
        """Create a segment with these core attributes. Raises SegmentExistsError."""

    async def append(
        self,
        segment: SegmentState,
        data: bytes | bytearray | memoryview,
        updates: Sequence[AttributeUpdate] = (),
        expected_offset: int = -1,
    ) -> int:
        """Append atomically, answer the offset at which ``data`` begins, once it is durable."""

    async def read(
        self, segment: SegmentState, offset: int, length_max: int, *, wait: bool
    ) -> ReadResult: ...

    async def truncate(self, segment: SegmentState, offset: int) -> None: ...

    async def delete(self, segment: SegmentState) -> None: ...
