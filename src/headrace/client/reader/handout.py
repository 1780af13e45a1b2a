"""What a reader has for its consumer, and how much of it the consumer has. Pure.

A reader puts a batch, or the news that events are gone, into the hand-out; what is not taken from there
belongs to the reader, whatever becomes of the consumer's wait. The consumer may be on another thread: each
taking is one assignment right in front of its return, so that an interrupt finds either all of it or nothing
done.
"""

from __future__ import annotations

from headrace.client.reader.event_batch import Event, EventBatch
from headrace.errors import HeadraceError


class Handout:
    """A batch that is taken event by event or at once, or an error that is told once, or nothing."""

    __slots__ = (
        "_batch",
        "_count",
        "_decoder",
        "_error",
        "_error_place",
        "_event_type",
        "_in_hand",
        "_is_recalled",
        "_offsets",
        "_payloads",
        "_segment_id",
        "_taken",
    )

    def __init__(
        self,
        batch: EventBatch | None = None,
        error: HeadraceError | None = None,
        error_place: tuple[int, int] | None = None,
    ) -> None:
        """``error_place``: segment and offset of the event that the error is about, left until it is told."""
        self._batch = batch
        self._count = 0 if batch is None else len(batch)
        self._taken = 0
        self._error = error
        self._payloads: list[bytes] = []
        """Of all events, once the first one is taken alone; so are the others."""
        self._offsets: list[int] = []
        self._segment_id = -1 if batch is None else batch.segment_id
        self._decoder = None if batch is None else batch.decoder
        self._event_type = Event if batch is None else batch.event_type
        self._error_place = error_place
        self._is_recalled = False
        self._in_hand = 0
        """What the last taking of a batch began with."""

    @property
    def is_taken(self) -> bool:
        """Nothing is left."""
        return self._taken == self._count and self._error is None

    @property
    def place(self) -> tuple[int, int] | None:
        """Segment and offset of the first event that is left; None: there is none."""
        batch, taken = self._batch, self._taken
        if batch is None or taken == self._count:
            return None if self._error is None else self._error_place
        return self._segment_id, batch.start_offset if taken == 0 else self._offsets[taken]

    @property
    def in_hand(self) -> int | None:
        """Offset of the first event that was taken last, alone or with others; None: none was taken."""
        batch, taken = self._batch, self._taken
        if batch is None or taken == 0:
            return None
        if self._in_hand < 0:  # all that was left was taken at once
            return batch.start_offset if self._in_hand == -1 else self._offsets[-1 - self._in_hand]
        return self._offsets[taken - 1]

    def recall(self) -> None:
        """Let nothing be taken any more, until it is given back. A taking that has begun may still happen."""
        self._is_recalled = True
        self._payloads = []

    def give_back(self) -> None:
        """Let what is left be taken again."""
        self._is_recalled = False

    def take_event(self) -> Event | None:
        """Return the next event; None: none is left. Raises the error."""
        taken = self._taken
        try:
            event = self._event_type(
                self._payloads[taken], self._segment_id, self._offsets[taken], self._decoder
            )
        except IndexError:
            return self._take_first()
        self._taken = taken + 1
        return event

    def _take_first(self) -> Event | None:
        batch = self._batch
        if self._is_recalled:
            return None
        if batch is None or self._taken == self._count:
            self._raise()
            return None
        self._offsets = batch.event_offsets()
        self._payloads = batch.stored_payloads()
        return self.take_event()

    def take_batch(self) -> EventBatch | None:
        """Return all events that are left; None: none is. Raises the error."""
        batch, taken = self._batch, self._taken
        if self._is_recalled:
            return None
        if batch is None or taken == self._count:
            self._raise()
            return None
        if taken:
            batch = batch.behind(taken)
        self._in_hand = -1 - taken
        self._taken = self._count
        return batch

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    def on_told(self, error: BaseException) -> None:
        """Drop the error, which the consumer has now. Until then each taking raises it."""
        if self._error is error:
            self._error = None
