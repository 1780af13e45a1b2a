"""Requests that create, change, inspect and remove segments. Each takes a request and returns its reply."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from headrace.limits import INT64_MAX
from headrace.segmentstore.container.segment_merges import check_count
from headrace.segmentstore.ingress.contract import StoreFacade
from headrace.segmentstore.ingress.transient_segments import TransientSegments
from headrace.wire import commands as c
from headrace.wire.commands.kinds import Reply, Request
from headrace.wire.fields import MergedSegment
from headrace.wire.frames import encode

Handler = Callable[..., Awaitable[Reply]]


class SegmentSession:
    """Segment requests of one connection. Errors of the store pass through."""

    __slots__ = ("_store", "_transients", "handlers")

    def __init__(self, store: StoreFacade, transients: TransientSegments) -> None:
        self._store = store
        self._transients = transients
        self.handlers: dict[type[Request], Handler] = {
            c.CreateSegment: self.create,
            c.CreateTransientSegment: self.create_transient,
            c.GetStreamSegmentInfo: self.info,
            c.SealSegment: self.seal,
            c.TruncateSegment: self.truncate,
            c.DeleteSegment: self.delete,
            c.UpdateSegmentPolicy: self.update_policy,
            c.MergeSegments: self.merge,
            c.MergeSegmentsBatch: self.merge_batch,
            c.GetSegmentAttribute: self.get_attribute,
            c.UpdateSegmentAttribute: self.update_attribute,
            c.LocateOffset: self.locate_offset,
            c.GetSegmentInfos: self.infos,
            c.DeleteSegments: self.delete_many,
            c.GetChangedSegments: self.changed,
            c.PurgeSegments: self.purge,
            c.AskStore: self.ask,
        }

    async def create(self, request: c.CreateSegment) -> Reply:
        await self._store.create_segment(
            request.segment,
            scale_type=request.scale_type,
            target_rate=request.target_rate,
            rollover_bytes=max(0, request.rollover_size_bytes),
        )
        return c.SegmentCreated(request.request_id, request.segment)

    async def create_transient(self, request: c.CreateTransientSegment) -> Reply:
        name = await self._transients.create(request.parent_segment, request.writer_id)
        return c.SegmentCreated(request.request_id, name)

    async def info(self, request: c.GetStreamSegmentInfo) -> Reply:
        info = await self._store.segment_info(request.segment)
        return c.StreamSegmentInfo(
            request.request_id,
            request.segment,
            exists=True,
            is_sealed=info.sealed,
            is_deleted=False,
            last_modified=info.last_modified_ms,
            write_offset=info.length,
            start_offset=info.start_offset,
        )

    async def seal(self, request: c.SealSegment) -> Reply:
        await self._store.seal_segment(request.segment)
        return c.SegmentSealed(request.request_id, request.segment)

    async def truncate(self, request: c.TruncateSegment) -> Reply:
        await self._store.truncate_segment(request.segment, request.truncation_offset)
        return c.SegmentTruncated(request.request_id, request.segment)

    async def delete(self, request: c.DeleteSegment) -> Reply:
        await self._store.delete_segment(request.segment)
        self._transients.forget(request.segment)
        return c.SegmentDeleted(request.request_id, request.segment)

    async def update_policy(self, request: c.UpdateSegmentPolicy) -> Reply:
        await self._store.update_policy(request.segment, request.scale_type, request.target_rate)
        return c.SegmentPolicyUpdated(request.request_id, request.segment)

    async def merge(self, request: c.MergeSegments) -> Reply:
        length = await self._store.merge_segments(request.target, request.source, request.attribute_updates)
        self._transients.forget(request.source)
        return c.SegmentsMerged(request.request_id, request.target, request.source, length)

    async def merge_batch(self, request: c.MergeSegmentsBatch) -> Reply:
        sources = request.source_segment_ids
        check_count(sources)  # before an answer of 65,536 names is encoded, which takes long
        # Before anything is merged: an answer that fits no frame would be sent as a refusal.
        encode(_merged(request, [INT64_MAX] * len(sources)))
        lengths = await self._store.merge_batch(request.target_segment_id, sources)
        for source in sources:
            self._transients.forget(source)
        return _merged(request, lengths)

    async def get_attribute(self, request: c.GetSegmentAttribute) -> Reply:
        value = await self._store.get_attribute(request.segment, request.attribute_id)
        return c.SegmentAttribute(request.request_id, value)

    async def update_attribute(self, request: c.UpdateSegmentAttribute) -> Reply:
        success = await self._store.update_attribute(
            request.segment, request.attribute_id, request.new_value, request.expected_value
        )
        return c.SegmentAttributeUpdated(request.request_id, success)

    async def locate_offset(self, request: c.LocateOffset) -> Reply:
        """Answer the end of the segment: always an event boundary. The server knows no other."""
        info = await self._store.segment_info(request.segment)
        return c.OffsetLocated(request.request_id, request.segment, info.length)

    # ---- of other processes of Headrace

    async def infos(self, request: c.GetSegmentInfos) -> Reply:
        return c.SegmentInfos.of(request, await self._store.segment_infos(request.segments))

    async def delete_many(self, request: c.DeleteSegments) -> Reply:
        await self._store.delete_segments(request.segments)
        return c.SegmentsDeleted(request.request_id)

    async def changed(self, request: c.GetChangedSegments) -> Reply:
        return c.ChangedSegments.of(request, *await self._store.changed_segments(request.marker))

    async def purge(self, request: c.PurgeSegments) -> Reply:
        return c.SegmentsPurged.of(request, await self._store.purge(request.segments))

    async def ask(self, request: c.AskStore) -> Reply:
        return c.StoreAnswer(request.request_id, await self._store.answer(request.question))


def _merged(request: c.MergeSegmentsBatch, lengths: Sequence[int]) -> Reply:
    merged = [MergedSegment(*each) for each in zip(request.source_segment_ids, lengths, strict=True)]
    return c.SegmentsBatchMerged(request.request_id, request.target_segment_id, merged)
