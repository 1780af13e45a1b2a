"""The commands of a connection: one plain class each, by area."""

from headrace.wire.commands.admin import (
    FlushToStorage as FlushToStorage,
)
from headrace.wire.commands.admin import (
    ListStorageChunks as ListStorageChunks,
)
from headrace.wire.commands.admin import (
    StorageChunksListed as StorageChunksListed,
)
from headrace.wire.commands.admin import (
    StorageFlushed as StorageFlushed,
)
from headrace.wire.commands.appends import (
    AppendBlock as AppendBlock,
)
from headrace.wire.commands.appends import (
    AppendBlockEnd as AppendBlockEnd,
)
from headrace.wire.commands.appends import (
    AppendSetup as AppendSetup,
)
from headrace.wire.commands.appends import (
    ConditionalAppend as ConditionalAppend,
)
from headrace.wire.commands.appends import (
    ConditionalBlockEnd as ConditionalBlockEnd,
)
from headrace.wire.commands.appends import (
    ConditionalCheckFailed as ConditionalCheckFailed,
)
from headrace.wire.commands.appends import (
    CreateTransientSegment as CreateTransientSegment,
)
from headrace.wire.commands.appends import (
    DataAppended as DataAppended,
)
from headrace.wire.commands.appends import (
    Padding as Padding,
)
from headrace.wire.commands.appends import (
    PartialEvent as PartialEvent,
)
from headrace.wire.commands.appends import (
    SetupAppend as SetupAppend,
)
from headrace.wire.commands.attributes import (
    GetSegmentAttribute as GetSegmentAttribute,
)
from headrace.wire.commands.attributes import (
    SegmentAttribute as SegmentAttribute,
)
from headrace.wire.commands.attributes import (
    SegmentAttributeUpdated as SegmentAttributeUpdated,
)
from headrace.wire.commands.attributes import (
    UpdateSegmentAttribute as UpdateSegmentAttribute,
)
from headrace.wire.commands.errors import (
    AuthTokenCheckFailed as AuthTokenCheckFailed,
)
from headrace.wire.commands.errors import (
    ErrorMessage as ErrorMessage,
)
from headrace.wire.commands.errors import (
    InvalidEventNumber as InvalidEventNumber,
)
from headrace.wire.commands.errors import (
    NoSuchSegment as NoSuchSegment,
)
from headrace.wire.commands.errors import (
    OperationUnsupported as OperationUnsupported,
)
from headrace.wire.commands.errors import (
    SegmentAlreadyExists as SegmentAlreadyExists,
)
from headrace.wire.commands.errors import (
    SegmentIsSealed as SegmentIsSealed,
)
from headrace.wire.commands.errors import (
    SegmentIsTruncated as SegmentIsTruncated,
)
from headrace.wire.commands.errors import (
    TableKeyBadVersion as TableKeyBadVersion,
)
from headrace.wire.commands.errors import (
    TableKeyDoesNotExist as TableKeyDoesNotExist,
)
from headrace.wire.commands.errors import (
    TableSegmentNotEmpty as TableSegmentNotEmpty,
)
from headrace.wire.commands.errors import (
    WrongHost as WrongHost,
)
from headrace.wire.commands.internal import (
    AskStore as AskStore,
)
from headrace.wire.commands.internal import (
    ChangedSegments as ChangedSegments,
)
from headrace.wire.commands.internal import (
    DeleteSegments as DeleteSegments,
)
from headrace.wire.commands.internal import (
    GetChangedSegments as GetChangedSegments,
)
from headrace.wire.commands.internal import (
    GetSegmentInfos as GetSegmentInfos,
)
from headrace.wire.commands.internal import (
    PurgeSegments as PurgeSegments,
)
from headrace.wire.commands.internal import (
    SegmentInfos as SegmentInfos,
)
from headrace.wire.commands.internal import (
    SegmentsDeleted as SegmentsDeleted,
)
from headrace.wire.commands.internal import (
    SegmentsPurged as SegmentsPurged,
)
from headrace.wire.commands.internal import (
    StoreAnswer as StoreAnswer,
)
from headrace.wire.commands.kinds import (
    Command as Command,
)
from headrace.wire.commands.kinds import (
    InternalRequest as InternalRequest,
)
from headrace.wire.commands.kinds import (
    Reply as Reply,
)
from headrace.wire.commands.kinds import (
    Request as Request,
)
from headrace.wire.commands.reads import (
    GetStreamSegmentInfo as GetStreamSegmentInfo,
)
from headrace.wire.commands.reads import (
    LocateOffset as LocateOffset,
)
from headrace.wire.commands.reads import (
    OffsetLocated as OffsetLocated,
)
from headrace.wire.commands.reads import (
    ReadSegment as ReadSegment,
)
from headrace.wire.commands.reads import (
    SegmentRead as SegmentRead,
)
from headrace.wire.commands.reads import (
    StreamSegmentInfo as StreamSegmentInfo,
)
from headrace.wire.commands.segments import (
    CreateSegment as CreateSegment,
)
from headrace.wire.commands.segments import (
    DeleteSegment as DeleteSegment,
)
from headrace.wire.commands.segments import (
    MergeSegments as MergeSegments,
)
from headrace.wire.commands.segments import (
    MergeSegmentsBatch as MergeSegmentsBatch,
)
from headrace.wire.commands.segments import (
    SealSegment as SealSegment,
)
from headrace.wire.commands.segments import (
    SegmentCreated as SegmentCreated,
)
from headrace.wire.commands.segments import (
    SegmentDeleted as SegmentDeleted,
)
from headrace.wire.commands.segments import (
    SegmentPolicyUpdated as SegmentPolicyUpdated,
)
from headrace.wire.commands.segments import (
    SegmentsBatchMerged as SegmentsBatchMerged,
)
from headrace.wire.commands.segments import (
    SegmentSealed as SegmentSealed,
)
from headrace.wire.commands.segments import (
    SegmentsMerged as SegmentsMerged,
)
from headrace.wire.commands.segments import (
    SegmentTruncated as SegmentTruncated,
)
from headrace.wire.commands.segments import (
    TruncateSegment as TruncateSegment,
)
from headrace.wire.commands.segments import (
    UpdateSegmentPolicy as UpdateSegmentPolicy,
)
from headrace.wire.commands.session import (
    Hello as Hello,
)
from headrace.wire.commands.session import (
    KeepAlive as KeepAlive,
)
from headrace.wire.commands.tables import (
    CreateTableSegment as CreateTableSegment,
)
from headrace.wire.commands.tables import (
    DeleteTableSegment as DeleteTableSegment,
)
from headrace.wire.commands.tables import (
    GetTableSegmentInfo as GetTableSegmentInfo,
)
from headrace.wire.commands.tables import (
    ReadTable as ReadTable,
)
from headrace.wire.commands.tables import (
    ReadTableEntries as ReadTableEntries,
)
from headrace.wire.commands.tables import (
    ReadTableEntriesDelta as ReadTableEntriesDelta,
)
from headrace.wire.commands.tables import (
    ReadTableKeys as ReadTableKeys,
)
from headrace.wire.commands.tables import (
    RemoveTableKeys as RemoveTableKeys,
)
from headrace.wire.commands.tables import (
    TableEntriesDeltaRead as TableEntriesDeltaRead,
)
from headrace.wire.commands.tables import (
    TableEntriesRead as TableEntriesRead,
)
from headrace.wire.commands.tables import (
    TableEntriesUpdated as TableEntriesUpdated,
)
from headrace.wire.commands.tables import (
    TableKeysRead as TableKeysRead,
)
from headrace.wire.commands.tables import (
    TableKeysRemoved as TableKeysRemoved,
)
from headrace.wire.commands.tables import (
    TableRead as TableRead,
)
from headrace.wire.commands.tables import (
    TableSegmentInfo as TableSegmentInfo,
)
from headrace.wire.commands.tables import (
    UpdateTableEntries as UpdateTableEntries,
)
