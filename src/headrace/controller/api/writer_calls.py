"""The calls in which writers speak about time. Source: protocol, "Writer time"."""

from __future__ import annotations

from typing import Final

from headrace.controller.context import ControllerContext
from headrace.controller.streams.writer_marks import MarkOutcome
from headrace.errors import InvalidArgumentError
from headrace.model.stream_cut import COMPLETED
from headrace.rpc.generated import controller_pb2 as pb

_NOTED: Final = {
    MarkOutcome.OK: pb.TimestampResponse.SUCCESS,
    MarkOutcome.TIME_WENT_BACK: pb.TimestampResponse.INVALID_TIME,
    MarkOutcome.POSITION_WENT_BACK: pb.TimestampResponse.INVALID_POSITION,
}


class WriterCalls:
    """Marks are stored; the owner of the stream's bucket makes watermarks of them."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    async def note_timestamp_from_writer(self, request: pb.TimestampFromWriter) -> pb.TimestampResponse:
        info = request.position.streamInfo
        stream = await self._context.directory.get(info.scope, info.stream)
        position = dict(request.position.cut)
        if any(segment_id < 0 or offset < COMPLETED for segment_id, offset in position.items()):
            return pb.TimestampResponse(result=pb.TimestampResponse.INVALID_POSITION)
        outcome = await self._context.marks.note(stream, request.writer, request.timestamp, position)
        if outcome is MarkOutcome.TOO_LARGE:
            raise InvalidArgumentError("the writer and its position are too large to be noted")
        return pb.TimestampResponse(result=_NOTED[outcome])

    async def remove_writer(self, request: pb.RemoveWriterRequest) -> pb.RemoveWriterResponse:
        stream = await self._context.directory.get(request.stream.scope, request.stream.stream)
        outcome = await self._context.marks.shut_down(stream, request.writer)
        if outcome is MarkOutcome.UNKNOWN_WRITER:
            return pb.RemoveWriterResponse(result=pb.RemoveWriterResponse.UNKNOWN_WRITER)
        return pb.RemoveWriterResponse(result=pb.RemoveWriterResponse.SUCCESS)
