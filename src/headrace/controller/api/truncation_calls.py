"""The call of our own service about truncation. What it does is written in ``workflows.stream_requests``."""

from __future__ import annotations

from headrace.controller.workflows.stream_requests import StreamRequests
from headrace.rpc.generated import truncation_pb2 as tr


class TruncationCalls:
    def __init__(self, streams: StreamRequests) -> None:
        self._streams = streams

    async def truncate_any_stream(self, request: tr.TruncateAnyStreamRequest) -> tr.TruncateAnyStreamResponse:
        info = request.streamInfo
        await self._streams.truncate_any(info.scope, info.stream, dict(request.cut))
        return tr.TruncateAnyStreamResponse()
