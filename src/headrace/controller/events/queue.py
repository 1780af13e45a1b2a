"""Where requests to owners of buckets are posted, and who handles them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from headrace.controller.buckets.ownership import Buckets
from headrace.controller.events.event import EventKind, RequestEvent, request_segment
from headrace.controller.events.frames import frame_event
from headrace.errors import (
    HeadraceError,
    InvalidArgumentError,
    OverloadError,
    OwnershipError,
    UnknownOutcomeError,
)
from headrace.model.segment_access import SegmentAccess
from headrace.runtime.entropy import Entropy
from headrace.runtime.logs import logger
from headrace.runtime.retry import RetryPolicy, retry
from headrace.runtime.supervisor import Supervisor

Handler = Callable[[RequestEvent], Awaitable[None]]
"""Does what the event asks, on the controller that owns the bucket. It may be called twice for an event, and
by two controllers at once. Raises StreamBusyError to be called again later, behind the other events of the
stream; a transient error, to be called again; any other error, to have the event set aside."""

_log = logger(__name__)

NOTIFYING_MAX: Final = 10_000
_RETRY: Final = RetryPolicy(initial_s=0.02, multiplier=2.0, delay_max_s=5.0, attempts=12)
_PATIENT: Final = RetryPolicy(initial_s=0.1, multiplier=2.0, delay_max_s=30.0, attempts=1000)
TRANSIENT: Final = (OwnershipError, OverloadError, UnknownOutcomeError)
"""Families of errors after which the same is tried again."""


@dataclass(slots=True)
class EventStatistics:
    """Posts: those that wait now, and counts since creation. A dropped one is left to the next sweep."""

    posting: int
    posted: int
    dropped: int


class Events:
    """Posts and dispatches requests. Used on the controller's loop."""

    def __init__(self, access: SegmentAccess, buckets: Buckets, entropy: Entropy) -> None:
        self._access = access
        self._buckets = buckets
        self._entropy = entropy
        self._supervisor = Supervisor("events")
        self._handlers: dict[EventKind, Handler] = {}
        self._notifying: dict[RequestEvent, bool] = {}
        """Events that are being posted, and whether each has to be posted again."""
        self._posted = 0
        self._dropped = 0

    def handle(self, kind: EventKind, handler: Handler) -> None:
        """Call ``handler`` for events of ``kind``. To be called before the controller starts."""
        self._handlers[kind] = handler

    async def dispatch(self, event: RequestEvent) -> None:
        """Call the handler, here and now. Raises what it raises; InvalidArgumentError if there is none."""
        handler = self._handlers.get(event.kind)
        if handler is None:
            raise InvalidArgumentError(f"this controller handles no {event.kind.name}")
        await handler(event)

    async def post(self, event: RequestEvent) -> None:
        """Have the event handled at least once, by the owner of the bucket of its stream.

        It is durable when this returns. An append whose outcome is unknown is repeated.

        Raises OwnershipError, OverloadError, UnknownOutcomeError: after many attempts.
        """
        await self._post(event, _RETRY)

    def notify(self, event: RequestEvent) -> None:
        """Post an event whose subject is in a row, in the background, until it is posted.

        Nothing is posted if this controller owns the bucket: the caller has begun the work here. That, a post
        that this process does not live to make, and one that is dropped, is safe since the row is the
        promise: the bucket's owner finds it when it sweeps the rows next. So whatever happens here, the
        caller's decision stands.
        """
        if self._buckets.owns_stream(event.scope, event.stream):
            return
        if event in self._notifying:
            # What is being posted may have been handled already, before the row that this call is about.
            self._notifying[event] = True
            return
        if len(self._notifying) >= NOTIFYING_MAX or self._supervisor.statistics().stopped:
            self._dropped += 1
            return
        self._notifying[event] = True
        self._supervisor.spawn("post", self._notify(event))

    async def stop(self) -> None:
        """Give up what is not posted yet: rows say it."""
        await self._supervisor.stop()

    def is_idle(self) -> bool:
        """Whether nothing waits to be posted."""
        return not self._notifying

    def statistics(self) -> EventStatistics:
        return EventStatistics(len(self._notifying), self._posted, self._dropped)

    # ---------------------------------------------------------------------------------- inside

    async def _notify(self, event: RequestEvent) -> None:
        try:
            while self._notifying[event]:
                self._notifying[event] = False
                await self._post(event, _PATIENT)
        except HeadraceError as error:
            self._dropped += 1
            _log.warning("a request was not posted", stream=f"{event.scope}/{event.stream}", error=str(error))
        finally:
            del self._notifying[event]

    async def _post(self, event: RequestEvent, policy: RetryPolicy) -> None:
        segment = request_segment(self._buckets.bucket_of(event.scope, event.stream))
        data = frame_event(event)
        await retry(
            policy,
            lambda: self._access.append(segment, data),
            entropy=self._entropy,
            retryable=TRANSIENT,
        )
        self._posted += 1
