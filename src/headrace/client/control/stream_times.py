"""Where a stream was at a time: asked from the controllers, which sample streams that grow."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from headrace.client.control.controller import Controller
from headrace.errors import InvalidArgumentError
from headrace.limits import INT64_MAX
from headrace.model.stream_cut import StreamCut
from headrace.rpc import convert
from headrace.rpc.generated import stream_time_pb2 as time_pb
from headrace.runtime.times import milliseconds_of


@dataclass(frozen=True, slots=True)
class TimedCut:
    """A cut and when the stream was there.

    Everything acknowledged after the time that was asked for lies at or behind the cut. What lies behind it
    may be older by the pause between two samples: about 10 s within an hour, a minute within a day, 10
    minutes within 90 days.
    """

    cut: StreamCut
    time_ms: int | None
    """Milliseconds since 1970 by the clock of the controller; None for the head."""
    is_head: bool
    """The stream has no sample from before the time asked for, or that part of it was truncated: the cut is
    the head.
    """


class StreamTimes:
    """Questions about time. Used on one loop."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    async def cut_at(self, scope: str, stream: str, time: datetime | int) -> TimedCut:
        """Return the latest known cut that is not after ``time``.

        Raises:
            NoSuchStreamError: there is no such stream.
            InvalidArgumentError: the time is in the future, or so early that no stream was there.
            UnsupportedError: the controller is one of another kind.
        """
        request = time_pb.GetCutAtRequest(
            streamInfo=convert.stream_info(scope, stream), timeMs=asked_ms(time)
        )
        reply = await self._controller.call_time("getCutAt", request)
        cut = StreamCut.from_offsets(scope, stream, dict(reply.cut.cut))
        return TimedCut(cut, None if reply.isHead else reply.timeMs, reply.isHead)


def asked_ms(time: datetime | int) -> int:
    """Return milliseconds since 1970; a ``datetime`` without a zone is one of the local zone.

    Raises:
        InvalidArgumentError: it is before 1970, or no time that a computer knows.
    """
    if not isinstance(time, datetime | int):
        raise InvalidArgumentError(f"a time is a datetime or a whole number of ms, not {type(time).__name__}")
    try:
        number = time if isinstance(time, int) else milliseconds_of(time)
    except (OverflowError, OSError, ValueError) as error:
        raise InvalidArgumentError(f"{time} is no time that can be asked for: {error}") from None
    if not 0 <= number <= INT64_MAX:
        raise InvalidArgumentError(f"{time} is no time since 1970")
    return number
