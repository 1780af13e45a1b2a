"""Calls about the times that writers note; watermarks are made of them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from headrace.client.control.controller import Controller
from headrace.errors import InvalidArgumentError
from headrace.limits import INT64_MAX, INT64_MIN
from headrace.rpc import convert
from headrace.rpc.generated import controller_pb2 as pb
from headrace.runtime.times import milliseconds_of


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


def event_time(given: datetime | int) -> int:
    """Return a time of events as a number; a ``datetime`` as milliseconds since 1970.

    Raises:
        InvalidArgumentError: it is no signed 64-bit number, or a ``datetime`` without a zone: which time
            that is would depend on the machine, and a time that was noted is not taken back.
    """
    if isinstance(given, datetime):
        if given.tzinfo is None:
            raise InvalidArgumentError(f"{given} has no zone: give it one, such as tzinfo=datetime.UTC")
        return milliseconds_of(given)
    number: object = given
    if not isinstance(number, int) or not INT64_MIN < number <= INT64_MAX:
        raise InvalidArgumentError(f"{given!r} is no time: it is a datetime, or a signed number of 64 bits")
    return number
