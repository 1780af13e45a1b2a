"""Where requests to owners of buckets are posted, and who handles them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from headrace.controller.events.event import EventKind, RequestEvent

Handler = Callable[[RequestEvent], Awaitable[None]]
"""Does what the event asks, on the controller that owns the bucket. It may be called twice for an event, and
by two controllers at once. Raises StreamBusyError to be called again later, behind the other events of the
stream; a transient error, to be called again; any other error, to have the event set aside."""


class Events:
    """Posts and dispatches requests. Used on the controller's loop."""

    def __init__(self) -> None:
        self._handlers: dict[EventKind, Handler] = {}

    def handle(self, kind: EventKind, handler: Handler) -> None:
        """Call ``handler`` for events of ``kind``. To be called before the controller starts."""
        self._handlers[kind] = handler

    async def post(self, event: RequestEvent) -> None:
        """Have the event handled at least once, by the owner of the bucket of its stream."""
        await self._handlers[event.kind](event)
