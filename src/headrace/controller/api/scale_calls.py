"""The calls about scaling. Source: protocol, "Scaling"."""

from __future__ import annotations

from headrace.controller.context import ControllerContext
from headrace.controller.store.rows.stream_row import StreamRow
from headrace.controller.workflows.scale_stream import request_scale
from headrace.errors import InvalidArgumentError
from headrace.model.key_space import KeyRange
from headrace.rpc.convert import segment_range_to_message
from headrace.rpc.generated import controller_pb2 as pb


class ScaleCalls:
    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    async def scale(self, request: pb.ScaleRequest) -> pb.ScaleResponse:
        info = request.streamInfo
        ranges = [KeyRange(entry.start, entry.end) for entry in request.newKeyRanges]
        stream = await self._context.directory.get(info.scope, info.stream)
        epoch, segments = await request_scale(
            self._context, stream, list(request.sealedSegments), ranges, request.scaleTimestamp
        )
        return pb.ScaleResponse(
            status=pb.ScaleResponse.STARTED,
            segments=[
                segment_range_to_message(info.scope, info.stream, segment.segment_id, segment.key_range)
                for segment in segments
            ],
            epoch=epoch,
        )

    async def check_scale(self, request: pb.ScaleStatusRequest) -> pb.ScaleStatusResponse:
        info = request.streamInfo
        stream = await self._context.directory.get(info.scope, info.stream)
        return pb.ScaleStatusResponse(status=scale_status(stream.row, request.epoch))


def scale_status(row: StreamRow, epoch: int) -> pb.ScaleStatusResponse.ScaleStatus.ValueType:
    """How far the scale is that left ``epoch``. Raises InvalidArgumentError if no scale can have."""
    active = row.epoch
    if not 0 <= epoch <= active.epoch:
        raise InvalidArgumentError(
            f"the stream has had no stream epoch {epoch}: the present one is {active.epoch}"
        )
    if epoch in {active.epoch, active.reference}:
        return pb.ScaleStatusResponse.IN_PROGRESS
    # The epoch changes with the last step of a scale: nothing of it is left to do.
    return pb.ScaleStatusResponse.SUCCESS
