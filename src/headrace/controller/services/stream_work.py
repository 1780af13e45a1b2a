"""Requests of other controllers to do what a stream's rows say."""

from __future__ import annotations

from headrace.controller.context import ControllerContext
from headrace.controller.events.event import EventKind, RequestEvent


class StreamWork:
    """Gives the streams of requests to the engine. Used on the controller's loop."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        context.events.handle(EventKind.STREAM_WORK, self._take)

    async def _take(self, event: RequestEvent) -> None:
        """The request is done once the engine has the stream: its rows say the rest, here and to a successor.

        A stream that is gone, and one whose work is done, have nothing left to do.
        """
        context = self._context
        stream = await context.directory.find(event.scope, event.stream)
        if stream is None:
            return
        if not context.engine.has_work(stream):
            await context.registry.all_of(stream.uid)  # another controller may have decided a transaction
        if context.engine.has_work(stream):
            context.engine.wake(stream)
