"""The calls with which writers and readers find segments. Source: protocol, "Segments"."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from headrace.controller.context import ControllerContext
from headrace.controller.segments.placement import Placement
from headrace.controller.store.rows.epoch_row import EpochRecord
from headrace.controller.store.rows.stream_row import StreamState
from headrace.controller.streams.stream import Stream
from headrace.errors import AnswerTooLargeError, InvalidArgumentError, NoSuchSegmentError
from headrace.limits import INT64_MAX, MIB
from headrace.model.names import segment_name
from headrace.model.segment_id import make_segment_id
from headrace.rpc.convert import endpoint_to_message, segment_id_to_message, segment_range_to_message
from headrace.rpc.generated import controller_pb2 as pb

_RENDERED_MAX = 4096
_ENTRY_BYTES: Final = 4
"""At most, before each entry of an answer."""

ANSWER_BYTES_MAX: Final = 4 * MIB
"""What clients of the protocol receive at most."""


class SegmentCalls:
    """Tokens are left empty: what signs them fills them in."""

    def __init__(self, context: ControllerContext, placement: Placement) -> None:
        self._context = context
        self._placement = placement
        self._rendered: dict[bytes, tuple[EpochRecord, pb.SegmentRanges]] = {}

    async def get_current_segments(self, request: pb.StreamInfo) -> pb.SegmentRanges:
        stream = await self._stream(request)
        if stream.row.state is StreamState.SEALED:
            return pb.SegmentRanges()
        return self._render_epoch(stream, stream.row.epoch)

    async def get_epoch_segments(self, request: pb.GetEpochSegmentsRequest) -> pb.SegmentRanges:
        """Answer with generalised ids, as ``createTransaction`` did: resumed transactions ask.

        So do clients that look up key ranges, also of successors that are known before their epoch is active.
        """
        stream = await self._stream(request.streamInfo)
        record = await stream.epochs(visible=True).find(request.epoch)
        if record is None:
            raise NoSuchSegmentError(
                stream.full_name, f"stream {stream.full_name} has no stream epoch {request.epoch}"
            )
        return pb.SegmentRanges(
            segmentRanges=[
                segment_range_to_message(
                    stream.scope,
                    stream.name,
                    make_segment_id(segment.number, request.epoch),
                    segment.key_range,
                )
                for segment in record.segments
            ]
        )

    async def get_segments(self, request: pb.GetSegmentsRequest) -> pb.SegmentsAtTime:
        stream = await self._stream(request.streamInfo)
        head: Iterable[tuple[int, int]]
        epochs = stream.epochs()
        if epochs.row.truncation is not None:
            head = epochs.row.truncation
        else:
            first = (await epochs.read([0]))[0]
            head = [(segment_id, 0) for segment_id in first.segment_ids()]
        return pb.SegmentsAtTime(
            segments=[
                pb.SegmentsAtTime.SegmentLocation(
                    segmentId=segment_id_to_message(stream.scope, stream.name, segment_id), offset=offset
                )
                for segment_id, offset in head
            ]
        )

    async def get_segments_immediately_following(self, request: pb.SegmentId) -> pb.SuccessorResponse:
        stream = await self._stream(request.streamInfo)
        successors = await stream.epochs(visible=True).successors(request.segmentId)
        return pb.SuccessorResponse(
            segments=[
                pb.SuccessorResponse.SegmentEntry(
                    segment=segment_range_to_message(
                        stream.scope, stream.name, successor.segment.segment_id, successor.segment.key_range
                    ),
                    value=successor.predecessors,
                )
                for successor in successors
            ]
        )

    async def get_segments_immediatly_following(self, request: pb.SegmentId) -> pb.SuccessorResponse:
        return await self.get_segments_immediately_following(request)

    async def get_segments_between(self, request: pb.StreamCutRange) -> pb.StreamCutRangeResponse:
        lower, upper = dict(getattr(request, "from")), dict(request.to)
        if not lower and not upper:
            raise InvalidArgumentError("at least one of two cuts must be bounded")
        stream = await self._stream(request.streamInfo)
        # The text of an id repeats the names of scope and stream; two bytes and a length begin the entry.
        largest = segment_id_to_message(stream.scope, stream.name, INT64_MAX)
        each_bytes = largest.ByteSize() + _ENTRY_BYTES
        count_max = ANSWER_BYTES_MAX // each_bytes
        between = await stream.cuts().between(lower, upper, count_max=count_max)
        if len(between) > count_max:
            raise AnswerTooLargeError(len(between) * each_bytes, ANSWER_BYTES_MAX)
        return pb.StreamCutRangeResponse(
            segments=[segment_id_to_message(stream.scope, stream.name, segment_id) for segment_id in between]
        )

    async def is_segment_valid(self, request: pb.SegmentId) -> pb.SegmentValidityResponse:
        stream = await self._stream(request.streamInfo)
        active = (
            stream.row.state is not StreamState.SEALED
            and stream.row.epoch.find(request.segmentId) is not None
        )
        return pb.SegmentValidityResponse(response=active)

    async def is_stream_cut_valid(self, request: pb.StreamCut) -> pb.StreamCutValidityResponse:
        stream = await self._stream(request.streamInfo)
        return pb.StreamCutValidityResponse(response=await stream.cuts().is_valid(dict(request.cut)))

    async def get_uri(self, request: pb.SegmentId) -> pb.NodeUri:
        """A function of the name alone: clients ask for segments that are none of ours."""
        info = request.streamInfo
        if request.segmentId < 0:
            raise InvalidArgumentError(f"{request.segmentId} is no segment id")
        found = self._placement.locate(segment_name(info.scope, info.stream, request.segmentId))
        return endpoint_to_message(found)

    async def get_delegation_token(self, request: pb.StreamInfo) -> pb.DelegationToken:  # noqa: ARG002
        return pb.DelegationToken()

    async def _stream(self, info: pb.StreamInfo) -> Stream:
        stream = await self._context.directory.get(info.scope, info.stream)
        stream.check_readable()
        return stream

    def _render_epoch(self, stream: Stream, record: EpochRecord) -> pb.SegmentRanges:
        """Writers ask for the active epoch again and again; it is rendered once."""
        rendered = self._rendered.get(stream.uid)
        if rendered is not None and rendered[0] is record:
            return rendered[1]
        message = pb.SegmentRanges(
            segmentRanges=[
                segment_range_to_message(stream.scope, stream.name, segment.segment_id, segment.key_range)
                for segment in record.segments
            ]
        )
        if len(self._rendered) >= _RENDERED_MAX:
            self._rendered.clear()
        self._rendered[stream.uid] = (record, message)
        return message
