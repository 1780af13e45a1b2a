"""The number of every command, the version that introduced it, and which replies a request may get.

Reading this file answers "what is frame 59?" and "which replies can it get?". Any request about a segment may
also be answered by WrongHost, AuthTokenCheckFailed, OperationUnsupported or ErrorMessage. Format:
``docs/formats/wire.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.wire import commands as c
from headrace.wire.commands.kinds import Command, Reply, Request
from headrace.wire.layouts import Layout

VERSION: Final = 17
"""The version of this implementation."""

VERSION_OLDEST: Final = 5
"""The oldest version of a compatible peer."""

INTERNAL_VERSION: Final = 1002
"""What a process of Headrace says to another: all of :data:`VERSION`, and internal commands."""

INTERNAL_VERSIONS: Final = range(1001, 2000)
"""The protocol has none of these numbers."""


@dataclass(frozen=True, slots=True)
class Life:
    """One command: its number, since which version it exists, what answers it.

    ``replies``: the first one means success. A request without any is a part of another one.
    """

    type_id: int
    command: type[Command]
    since: int = VERSION_OLDEST
    replies: tuple[type[Reply], ...] = ()

    @property
    def is_request(self) -> bool:
        return issubclass(self.command, Request)

    @property
    def is_reply(self) -> bool:
        return issubclass(self.command, Reply)


_APPEND_FAILURES: Final = (c.SegmentIsSealed, c.NoSuchSegment, c.InvalidEventNumber)
_TABLE_FAILURES: Final = (
    c.TableKeyDoesNotExist,
    c.TableKeyBadVersion,
    c.SegmentIsTruncated,
    c.NoSuchSegment,
    c.SegmentIsSealed,
)

ANY_REQUEST_FAILURES: Final = (c.WrongHost, c.AuthTokenCheckFailed, c.OperationUnsupported, c.ErrorMessage)
"""Replies that any request about a segment may get."""

PROTOCOL: Final = (
    # ---- session
    Life(-127, c.Hello, replies=(c.Hello,)),
    Life(100, c.KeepAlive, replies=(c.KeepAlive,)),
    # ---- appends
    Life(-1, c.Padding),
    Life(-2, c.PartialEvent),
    Life(1, c.SetupAppend, replies=(c.AppendSetup, c.NoSuchSegment)),
    Life(2, c.AppendSetup),
    Life(3, c.AppendBlock),
    Life(4, c.AppendBlockEnd, replies=(c.DataAppended, *_APPEND_FAILURES)),
    Life(5, c.ConditionalAppend, replies=(c.DataAppended, c.ConditionalCheckFailed, *_APPEND_FAILURES)),
    Life(7, c.DataAppended),
    Life(8, c.ConditionalCheckFailed),
    Life(40, c.CreateTransientSegment, replies=(c.SegmentCreated, c.SegmentAlreadyExists, c.NoSuchSegment)),
    Life(
        89,
        c.ConditionalBlockEnd,
        since=11,
        replies=(c.DataAppended, c.ConditionalCheckFailed, *_APPEND_FAILURES),
    ),
    # ---- reads
    Life(9, c.ReadSegment, replies=(c.SegmentRead, c.NoSuchSegment, c.SegmentIsTruncated, c.SegmentIsSealed)),
    Life(10, c.SegmentRead),
    Life(11, c.GetStreamSegmentInfo, replies=(c.StreamSegmentInfo, c.NoSuchSegment)),
    Life(12, c.StreamSegmentInfo),
    Life(41, c.LocateOffset, since=17, replies=(c.OffsetLocated, c.NoSuchSegment)),
    Life(42, c.OffsetLocated, since=17),
    # ---- segments
    Life(20, c.CreateSegment, replies=(c.SegmentCreated, c.SegmentAlreadyExists)),
    Life(21, c.SegmentCreated),
    Life(28, c.SealSegment, replies=(c.SegmentSealed, c.SegmentIsSealed, c.NoSuchSegment)),
    Life(29, c.SegmentSealed),
    Life(30, c.DeleteSegment, replies=(c.SegmentDeleted, c.NoSuchSegment)),
    Life(31, c.SegmentDeleted),
    Life(32, c.UpdateSegmentPolicy, replies=(c.SegmentPolicyUpdated, c.NoSuchSegment, c.SegmentIsSealed)),
    Life(33, c.SegmentPolicyUpdated),
    Life(38, c.TruncateSegment, replies=(c.SegmentTruncated, c.SegmentIsTruncated, c.NoSuchSegment)),
    Life(39, c.SegmentTruncated),
    Life(
        58,
        c.MergeSegments,
        replies=(c.SegmentsMerged, c.SegmentAttributeUpdated, c.NoSuchSegment, c.SegmentIsSealed),
    ),
    Life(59, c.SegmentsMerged),
    Life(
        90,
        c.MergeSegmentsBatch,
        since=15,
        replies=(c.SegmentsBatchMerged, c.NoSuchSegment, c.SegmentIsSealed),
    ),
    Life(91, c.SegmentsBatchMerged, since=15),
    # ---- attributes
    Life(34, c.GetSegmentAttribute, replies=(c.SegmentAttribute, c.NoSuchSegment)),
    Life(35, c.SegmentAttribute),
    Life(
        36, c.UpdateSegmentAttribute, replies=(c.SegmentAttributeUpdated, c.NoSuchSegment, c.SegmentIsSealed)
    ),
    Life(37, c.SegmentAttributeUpdated),
    # ---- tables
    Life(68, c.GetTableSegmentInfo, since=7, replies=(c.TableSegmentInfo, c.NoSuchSegment)),
    Life(69, c.TableSegmentInfo, since=7),
    Life(70, c.CreateTableSegment, since=7, replies=(c.SegmentCreated, c.SegmentAlreadyExists)),
    Life(
        71, c.DeleteTableSegment, since=7, replies=(c.SegmentDeleted, c.TableSegmentNotEmpty, c.NoSuchSegment)
    ),
    Life(74, c.UpdateTableEntries, since=7, replies=(c.TableEntriesUpdated, *_TABLE_FAILURES)),
    Life(75, c.TableEntriesUpdated, since=7),
    Life(76, c.RemoveTableKeys, since=7, replies=(c.TableKeysRemoved, *_TABLE_FAILURES)),
    Life(77, c.TableKeysRemoved, since=7),
    Life(78, c.ReadTable, since=7, replies=(c.TableRead, c.NoSuchSegment)),
    Life(79, c.TableRead, since=7),
    Life(83, c.ReadTableKeys, since=7, replies=(c.TableKeysRead, c.NoSuchSegment)),
    Life(84, c.TableKeysRead, since=7),
    Life(85, c.ReadTableEntries, since=7, replies=(c.TableEntriesRead, c.NoSuchSegment)),
    Life(86, c.TableEntriesRead, since=7),
    Life(88, c.ReadTableEntriesDelta, since=10, replies=(c.TableEntriesDeltaRead, c.NoSuchSegment)),
    Life(87, c.TableEntriesDeltaRead, since=10),
    # ---- errors
    Life(50, c.WrongHost),
    Life(51, c.SegmentIsSealed),
    Life(52, c.SegmentAlreadyExists),
    Life(53, c.NoSuchSegment),
    Life(55, c.InvalidEventNumber),
    Life(56, c.SegmentIsTruncated),
    Life(57, c.OperationUnsupported),
    Life(60, c.AuthTokenCheckFailed),
    Life(61, c.ErrorMessage),
    Life(80, c.TableSegmentNotEmpty, since=7),
    Life(81, c.TableKeyDoesNotExist, since=7),
    Life(82, c.TableKeyBadVersion, since=7),
    # ---- admin
    Life(-3, c.FlushToStorage, replies=(c.StorageFlushed,)),
    Life(-4, c.StorageFlushed),
    Life(-5, c.ListStorageChunks, replies=(c.StorageChunksListed, c.NoSuchSegment)),
    Life(-6, c.StorageChunksListed),
)

INTERNAL: Final = (
    Life(1000, c.GetSegmentInfos, since=1001, replies=(c.SegmentInfos,)),
    Life(1001, c.SegmentInfos, since=1001),
    Life(1002, c.DeleteSegments, since=1001, replies=(c.SegmentsDeleted,)),
    Life(1003, c.SegmentsDeleted, since=1001),
    Life(1004, c.GetChangedSegments, since=1001, replies=(c.ChangedSegments,)),
    Life(1005, c.ChangedSegments, since=1001),
    Life(1006, c.PurgeSegments, since=1001, replies=(c.SegmentsPurged,)),
    Life(1007, c.SegmentsPurged, since=1001),
    Life(1020, c.AskStore, since=1002, replies=(c.StoreAnswer,)),
    Life(1021, c.StoreAnswer, since=1002),
)
"""Commands of our own: ``docs/formats/internal-commands.md``. They have the numbers 1000 to 1999."""

LIVES: Final = (*PROTOCOL, *INTERNAL)

BY_TYPE_ID: Final = {life.type_id: life for life in LIVES}
BY_COMMAND: Final = {life.command: life for life in LIVES}

LAYOUTS: Final = {life.type_id: Layout(life.command) for life in LIVES}
TYPE_IDS: Final = {life.command: life.type_id for life in LIVES}

REQUESTS: Final = frozenset(life.type_id for life in LIVES if life.is_request)
"""Type ids a server may receive."""

REPLIES: Final = frozenset(life.type_id for life in LIVES if life.is_reply)
"""Type ids a client may receive."""

assert len(BY_TYPE_ID) == len(BY_COMMAND) == len(LIVES)
