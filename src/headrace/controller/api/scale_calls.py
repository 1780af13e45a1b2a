"""The calls about scaling. Source: protocol, "Scaling"."""

from __future__ import annotations

from headrace.controller.context import ControllerContext
from headrace.controller.store.rows.stream_row import StreamRow
from headrace.controller.workflows.scale_stream import request_scale
from headrace.errors import (
    InvalidArgumentError,
    NoSuchStreamError,
    PreconditionError,
    StreamBusyError,
    StreamSealedError,
)
from headrace.model.key_space import KeyRange
from headrace.rpc.convert import segment_range_to_message
from headrace.rpc.generated import controller_pb2 as pb


class ScaleCalls:
    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    async def scale(self, request: pb.ScaleRequest) -> pb.ScaleResponse:
        info = request.streamInfo
        ranges = [KeyRange(entry.start, entry.end) for entry in request.newKeyRanges]
        if len({each.low for each in ranges}) != len(ranges):
            raise InvalidArgumentError("two new ranges begin at the same key")
        try:
            stream = await self._context.directory.get(info.scope, info.stream)
            epoch, segments = await request_scale(
                self._context, stream, list(request.sealedSegments), ranges, request.scaleTimestamp
            )
        except PreconditionError:
            return pb.ScaleResponse(status=pb.ScaleResponse.PRECONDITION_FAILED)
        except (NoSuchStreamError, StreamSealedError, StreamBusyError, InvalidArgumentError):
            return pb.ScaleResponse(status=pb.ScaleResponse.FAILURE)
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
        stream = await self._context.directory.find(info.scope, info.stream)
        if stream is None:
            return pb.ScaleStatusResponse(status=pb.ScaleStatusResponse.INVALID_INPUT)
        return pb.ScaleStatusResponse(status=scale_status(stream.row, request.epoch))


def scale_status(row: StreamRow, epoch: int) -> pb.ScaleStatusResponse.ScaleStatus.ValueType:
    """How far the scale is that left ``epoch``."""
    active = row.epoch
    if epoch > active.epoch or epoch < 0:
        return pb.ScaleStatusResponse.INVALID_INPUT
    if epoch in {active.epoch, active.reference}:
        return pb.ScaleStatusResponse.IN_PROGRESS
    # The epoch changes with the last step of a scale: nothing of it is left to do.
    return pb.ScaleStatusResponse.SUCCESS
