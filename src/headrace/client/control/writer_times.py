"""Calls about the times that writers note; watermarks are made of them."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.client.control.controller import Controller
from headrace.rpc import convert
from headrace.rpc.generated import controller_pb2 as pb


class WriterTimes:
    """The calls about times."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    async def note(
        self, scope: str, stream: str, writer_id: str, time: int, position: Mapping[int, int]
    ) -> None:
        """Say where a writer is at ``time``; an offset of -1: it has written nothing to the segment.

        Raises:
            NoSuchStreamError: there is no such stream.
            PreconditionError: the writer has noted a later time or position.
        """
        request = pb.TimestampFromWriter(
            writer=writer_id,
            timestamp=time,
            position=pb.StreamCut(streamInfo=convert.stream_info(scope, stream), cut=position),
        )
        await self._controller.call("noteTimestampFromWriter", request)

    async def remove(self, scope: str, stream: str, writer_id: str) -> None:
        """Say that a writer has left: watermarks wait for it no more.

        Raises:
            InvalidArgumentError: the writer has noted nothing.
        """
        request = pb.RemoveWriterRequest(writer=writer_id, stream=convert.stream_info(scope, stream))
        await self._controller.call("removeWriter", request, attempts=1)
