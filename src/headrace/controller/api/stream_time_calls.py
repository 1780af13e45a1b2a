"""The call of our own service about time. What it answers is written in ``workflows.cuts_in_time``."""

from __future__ import annotations

from headrace.controller.context import ControllerContext
from headrace.controller.workflows.cuts_in_time import cut_at
from headrace.rpc.generated import controller_pb2 as pb
from headrace.rpc.generated import stream_time_pb2 as st


class StreamTimeCalls:
    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    async def get_cut_at(self, request: st.GetCutAtRequest) -> st.GetCutAtResponse:
        info = request.streamInfo
        stream = await self._context.directory.get(info.scope, info.stream)
        stream.check_readable()
        found = await cut_at(self._context, stream, request.timeMs)
        return st.GetCutAtResponse(
            cut=pb.StreamCut(
                streamInfo=pb.StreamInfo(scope=info.scope, stream=info.stream), cut=found.offsets
            ),
            timeMs=found.time_ms,
            isHead=found.is_head,
        )
