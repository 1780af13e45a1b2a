"""Everything that can go wrong, in five families that say whether it happened and what to do.

=====================  ===============================  =======================================
Family                 The request...                   The caller...
=====================  ===============================  =======================================
RequestError           did not happen and never will    fixes the request
OwnershipError         did not happen here              asks who owns it, sends again
OverloadError          did not happen                   waits, sends again
UnknownOutcomeError    may have happened                retries with its identity, reads back
CorruptionError        must not continue                stops the owner, keeps the evidence
=====================  ===============================  =======================================

A leaf belongs to exactly one family, exists only if some caller acts differently on it, and carries fields.
Anything else that escapes is a bug of ours: its owner stops and is recovered from its log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final


class HeadraceError(Exception):
    """Root of every error this package raises on purpose."""

    inner: BaseException | None = None
    """The same error with every frame and cause, if it left the client: see ``client/public_calls.py``."""


# ------------------------------------------------------------------------------------------ families


class RequestError(HeadraceError):
    """The request did not happen and never will; the caller must change it."""


class OwnershipError(HeadraceError):
    """The request did not happen here; find the owner and send it again."""


class OverloadError(HeadraceError):
    """The request did not happen; wait and send it again."""


class UnknownOutcomeError(HeadraceError):
    """The request may have happened; retry only with its identity, then read back."""


class CorruptionError(HeadraceError):
    """An invariant or checksum is broken: the owner stops and the evidence is kept."""


# ------------------------------------------------------------------------------------------ segments


class SegmentError(RequestError):
    """A request about one segment cannot be carried out."""

    def __init__(self, segment: str, message: str = "") -> None:
        super().__init__(message or f"segment {segment!r}: {self.reason}")
        self.segment = segment

    reason = "the request was refused"


class NoSuchSegmentError(SegmentError):
    reason = "does not exist"


class SegmentExistsError(SegmentError):
    reason = "exists already"


class SegmentSealedError(SegmentError):
    reason = "is sealed; append to its successors"


class SegmentNotSealedError(SegmentError):
    reason = "is not sealed"


class SegmentMergedError(SegmentError):
    reason = "was merged into another segment"


class SegmentTruncatedError(SegmentError):
    """The offset is outside what a truncation may keep or a read may see."""

    def __init__(self, segment: str, start_offset: int, offset: int) -> None:
        super().__init__(segment, f"segment {segment!r} starts at {start_offset}; {offset} is not available")
        self.start_offset = start_offset
        self.offset = offset


class OffsetMismatchError(SegmentError):
    """A conditional append expected another length."""

    def __init__(self, segment: str, expected: int, actual: int) -> None:
        super().__init__(segment, f"segment {segment!r} has length {actual}, not the expected {expected}")
        self.expected = expected
        self.actual = actual


class AttributeMismatchError(SegmentError):
    """The condition of an attribute update does not hold."""

    def __init__(self, segment: str, attribute_id: bytes, expected: int, actual: int) -> None:
        super().__init__(
            segment,
            f"segment {segment!r}: attribute {attribute_id.hex()} is {actual}, the update wants {expected}",
        )
        self.attribute_id = attribute_id
        self.expected = expected
        self.actual = actual


class InvalidArgumentError(RequestError):
    """An argument is outside its documented range."""


class InvalidNameError(InvalidArgumentError):
    """A scope, stream, table, group or writer cannot have this name."""


class TooManyAttributesError(InvalidArgumentError):
    """A scratch segment, which one connection has for a large event, holds as many attributes as it may."""

    def __init__(self, segment: str, count_max: int) -> None:
        super().__init__(f"scratch segment {segment!r} holds {count_max} attributes and takes no further one")
        self.segment = segment
        self.count_max = count_max


class EventTooLargeError(InvalidArgumentError):
    """An event or append exceeds the documented bound."""

    def __init__(self, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(f"{size_bytes} bytes exceed the limit of {limit_bytes}")
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes


class EventNotDecodedError(RequestError):
    """The serializer of a reader does not take the bytes of an event, which was read all the same."""

    def __init__(self, stream: str, segment_id: int, offset: int, reason: str) -> None:
        super().__init__(f"the event at {offset} of segment {segment_id} of {stream} is {reason}")
        self.stream = stream
        self.segment_id = segment_id
        self.offset = offset


class EventNotRecordError(RequestError):
    """An event of a stream with records has none of their envelope: it was written by another client."""

    def __init__(self, stream: str, segment_id: int, offset: int, reason: str) -> None:
        super().__init__(
            f"the event at {offset} of segment {segment_id} of {stream} is no record: {reason}; "
            "reading goes on behind it, and on_error='skip' leaves such events out"
        )
        self.stream = stream
        self.segment_id = segment_id
        self.offset = offset


class LargeEventError(RequestError):
    """An event is larger than the reader may hold (``event_bytes_max``); reading may go on behind it."""

    def __init__(
        self, segment: str, segment_id: int, offset: int, start: int, end: int, limit_bytes: int
    ) -> None:
        """It begins at ``offset``, and its bytes are those from ``start`` to ``end`` of the segment."""
        length = end - start
        super().__init__(
            f"the event at {offset} of {segment} has {length} bytes, and the reader takes {limit_bytes} "
            f"(event_bytes_max): raise that, or stream its bytes with read_segment_range(scope, stream, "
            f"{segment_id}, {start}, {end})"
        )
        self.start = start
        self.end = end
        self.segment = segment
        self.segment_id = segment_id
        self.offset = offset
        self.length = length
        self.limit_bytes = limit_bytes


class AnswerTooLargeError(InvalidArgumentError):
    """What was asked for takes more bytes than the answer may have; nothing of it is returned."""

    def __init__(self, size_bytes: int, limit_bytes: int, message: str = "") -> None:
        super().__init__(
            message
            or f"the requested data take {size_bytes} bytes, a reply holds {limit_bytes}: request less"
        )
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes


class UnsupportedError(RequestError):
    """The operation is part of the protocol but not offered here (yet)."""


# ------------------------------------------------------------------------------------------ chunks


class ChunkError(RequestError):
    """A chunk provider refused a request about one object."""

    def __init__(self, chunk: str, message: str) -> None:
        super().__init__(f"chunk {chunk!r} {message}")
        self.chunk = chunk


class NoSuchChunkError(ChunkError):
    """The object does not exist."""

    def __init__(self, chunk: str) -> None:
        super().__init__(chunk, "does not exist")


class ChunkExistsError(ChunkError):
    """The object exists already."""

    def __init__(self, chunk: str) -> None:
        super().__init__(chunk, "exists already")


class ChunkOffsetError(ChunkError):
    """A write that does not begin at the object's end, or a read that goes beyond it."""

    def __init__(self, chunk: str, offset: int, actual: int) -> None:
        super().__init__(chunk, f"holds {actual} bytes; offset {offset} does not fit")
        self.offset = offset
        self.actual = actual


# ------------------------------------------------------------------------------------------ tables


class TableNotEmptyError(SegmentError):
    reason = "the table still holds keys"


class TableKeyMissingError(SegmentError):
    reason = "a key required by a condition does not exist"


class TableKeyVersionError(SegmentError):
    reason = "a key has another version than the condition requires"


# ------------------------------------------------------------------------------------------ control plane


class NoSuchScopeError(RequestError):
    """The scope does not exist."""


class ScopeExistsError(RequestError):
    """The scope exists already."""


class ScopeNotEmptyError(RequestError):
    """The scope has streams, tables or reader groups."""


class NoSuchStreamError(RequestError):
    """The stream does not exist."""


class StreamExistsError(RequestError):
    """The stream exists already."""


class StreamSealedError(RequestError):
    """The stream takes no appends and no changes any more; it can be read and deleted."""


class StreamNotSealedError(RequestError):
    """The stream has to be sealed first."""


class NoSuchTransactionError(RequestError):
    """The transaction is unknown, was aborted, or ended too long ago."""


class TransactionStateError(RequestError):
    """The transaction is in a state that does not allow the request (committed, aborted, expired)."""


class NoSuchTableError(RequestError):
    """A table of the metadata store does not exist: its scope is gone."""


class NoSuchReaderGroupError(RequestError):
    """The reader group does not exist, or has another id."""


class NoSuchKeyValueTableError(RequestError):
    """The key-value table does not exist."""


class KeyValueTableExistsError(RequestError):
    """The key-value table exists already."""


class NoSuchNodeError(RequestError):
    """A node of the coordination is absent."""


class NodeExistsError(RequestError):
    """A node of the coordination exists already, perhaps another member's."""


class AccessDeniedError(RequestError):
    """Credentials or a token were refused, or do not allow the request."""


class UnauthenticatedError(AccessDeniedError):
    """The credentials are missing or wrong."""


class PermissionDeniedError(AccessDeniedError):
    """The credentials are good, but not for this."""


class TokenExpiredError(AccessDeniedError):
    """The token was valid once; ask for a fresh one and send again."""


class TlsError(RequestError):
    """Encryption does not come about: one side speaks plainly, or a certificate is not accepted."""


class PreconditionError(RequestError):
    """A precondition named in the message does not hold; nothing changed."""


class ReaderOfflineError(PreconditionError):
    """The reader is no longer one of its group, and reads no more: another one goes on with what it had."""


class WriterReplacedError(RequestError):
    """Another process writes under the name of this writer, which takes nothing more."""

    def __init__(self, name: str, segment: str, number: int) -> None:
        super().__init__(
            f"another process writes as {name!r}: {segment} has its event {number}. Let one process at a "
            "time use a name"
        )
        self.name = name
        self.segment = segment
        self.number = number


# ------------------------------------------------------------------------------------------ protocol


class ProtocolError(RequestError):
    """The peer sent bytes that are no legal command in this place; the connection is closed."""


# ------------------------------------------------------------------------------------------ ownership


class WrongHostError(OwnershipError):
    """The container of this segment is not served here; ``owner`` is where it is, if that is known."""

    def __init__(self, segment: str, owner: str = "") -> None:
        super().__init__(f"segment {segment!r} is not served by this host" + (owner and f", but by {owner}"))
        self.segment = segment
        self.owner = owner


class ContainerOfflineError(OwnershipError):
    """The container is stopped, starting or failed; ask again for the owner."""


class UnreachableError(OwnershipError):
    """No server took the connection, or it was stopping and refused the request: nothing was done.

    Ask again soon, or at another address.
    """


class FencedOutError(OwnershipError):
    """A newer owner has taken the log or the storage; this one must stop."""


class ClosedError(OwnershipError):
    """The component that was asked is stopping or has stopped; nothing was done."""


class OpenedBeforeForkError(ClosedError):
    """What was asked belongs to the process that this one was forked from; nothing was done."""


class SessionExpiredError(OwnershipError):
    """The session with the coordinator is over; nothing was done. What it owned may have another owner."""


class DirectoryLockedError(OwnershipError):
    """Another process owns the data directory; its description is in ``holder``."""

    def __init__(self, path: str, holder: str) -> None:
        super().__init__(f"{path} is in use by {holder}")
        self.path = path
        self.holder = holder


# ------------------------------------------------------------------------------------------ overload


class ThrottledError(OverloadError):
    """A queue or budget is full."""


class MailboxFullError(OverloadError):
    """The queue of a component is full."""


class TooManyActiveSegmentsError(OverloadError):
    """A container has all the segments in memory that it may have, and none of them can leave now."""

    def __init__(self, container_id: int, active_max: int) -> None:
        super().__init__(
            f"container {container_id} holds {active_max} active segments and none is idle; close writers "
            "and readers that are not needed, add containers, or raise active_segments_max"
        )
        self.container_id = container_id
        self.active_max = active_max


class TooManyWritersError(OverloadError):
    """A connection has all the writers that it may have now; those it has go on."""

    def __init__(self, limit: int, total: int) -> None:
        super().__init__(
            f"more than {limit} writers on one connection, {total} on all of them: use further connections, "
            "or close writers that are not needed"
        )
        self.limit = limit
        self.total = total


class StorageFullError(OverloadError):
    """No space is left where the data must go; nothing was written. Free space and send again."""


class StreamBusyError(OverloadError):
    """A workflow holds the stream, or it is still being created; ask again soon."""


class MetadataConflictError(OverloadError):
    """Someone else changed the same row, or node of the coordination, first; read it again and retry."""


class SnapshotLostError(OverloadError):
    """Data of a running server changed while they were read without its help; read them again."""


class WaitTimeoutError(OverloadError):
    """What was waited for has not come about in time; wait again, or longer."""


# ------------------------------------------------------------------------------------------ unknown outcome


class ConnectionLostError(UnknownOutcomeError):
    """The connection broke, or no answer came in time."""


class WalWriteError(UnknownOutcomeError):
    """A log write failed or timed out: durability is unknown, the owner recovers from the log."""


class LostReplyError(UnknownOutcomeError):
    """The request was sent and never answered."""


@dataclass(frozen=True, slots=True)
class LostWrites:
    """How much of what one stream, or table, was given is not known to be durable."""

    place: str
    """``scope/stream``"""
    count: int
    unit: str
    """``"events"``; ``"bytes"`` of a byte stream; ``"changes"`` of a table, or of a segment."""

    def __str__(self) -> str:
        return f"{self.count} {self.unit} of {self.place}"


class NotDurableError(UnknownOutcomeError):
    """A client was closed, and ``lost`` of what its writers took is not known to be durable, by stream.

    Why is in ``__cause__``. Read the streams back before writing again.
    """

    def __init__(self, lost: Sequence[LostWrites]) -> None:
        super().__init__(
            f"not known to be durable when the client was closed: {', '.join(map(str, lost))}; "
            "read back before writing again"
        )
        self.lost = tuple(lost)


class StorageWriteError(UnknownOutcomeError):
    """Long-term storage did not confirm a write: the object may hold none, some or all of it."""


class StorageWriteRefusedError(StorageWriteError):
    """Long-term storage refused a write, and goes on to until somebody acts: ``reason`` says who and how."""

    def __init__(self, message: str, *, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason or message


class ControllerFailureError(UnknownOutcomeError):
    """The controller answered that it failed; what it had begun may still happen."""


class DeadlineExceededError(UnknownOutcomeError):
    """It takes longer than the caller may wait; it goes on."""


# ------------------------------------------------------------------------------------------ corruption


class DataCorruptionError(CorruptionError):
    """Bytes on disk or state rebuilt from them contradict their invariants."""

    def __init__(self, message: str, *, path: str | None = None, offset: int | None = None) -> None:
        where = "" if path is None else f" ({path}" + ("" if offset is None else f" at offset {offset}") + ")"
        super().__init__(message + where)
        self.path = path
        self.offset = offset


class ChecksumMismatchError(DataCorruptionError):
    """Bytes on disk are not those that were written."""


class StorageReadError(UnknownOutcomeError):
    """Long-term storage did not answer a read; the data is there, ask again."""


class StorageReadRefusedError(StorageReadError):
    """Long-term storage refused a read, and goes on to until somebody acts: ``reason`` says who and how."""

    def __init__(self, message: str, *, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason or message


#: Exit code of the command line for each family.
EXIT_CODES: Final[dict[type[HeadraceError], int]] = {
    RequestError: 2,
    OwnershipError: 3,
    OverloadError: 4,
    UnknownOutcomeError: 5,
    CorruptionError: 6,
}


def family_of(error: HeadraceError) -> type[HeadraceError]:
    """Return the family a leaf belongs to."""
    for family in EXIT_CODES:
        if isinstance(error, family):
            return family
    return HeadraceError
