"""A loop over events with a reader of its own: opened by its first event, closed when the loop is left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Self

from headrace.client.blocking.readers import EventReader
from headrace.client.forks import OfOneProcess
from headrace.client.public_calls import OURS, outward
from headrace.client.reader.event_batch import Event
from headrace.client.reader.event_rows import html_rows


class ReadLoop(OfOneProcess, Iterator[Event]):
    """Made by :meth:`Client.read`. After Ctrl-C, or an error, it goes on as its reader does.

    A loop that nothing refers to any more has been left.
    """

    def __init__(
        self, place: str, open_reader: Callable[[], EventReader], first_events: Callable[[], Iterator[Event]]
    ) -> None:
        """``first_events`` reads some of them by itself, which leaves the loop where it is."""
        self._place = place
        self._open = open_reader
        self._first_events = first_events
        self._reader: EventReader | None = None
        self._closed = False

    def __repr__(self) -> str:
        if self._reader is None:
            return f"<headrace.ReadLoop of {self._place}, not begun: iterate over it>"
        return repr(self._reader)

    def _repr_html_(self) -> str:
        """Return the first events as a table, for notebooks; the loop stays where it is."""
        return html_rows(self._place, self._first_events())

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        try:
            if self._closed:
                raise StopIteration
            if self._reader is None:
                self._reader = self._open()
            for event in self._reader:  # unlike next(), it lets no interrupt in behind the event
                return event
            self.close()
            raise StopIteration
        except OURS as error:
            failure = outward(error)
        raise failure

    def close(self) -> None:
        """Leave it: nothing is read any more. Idempotent."""
        self._closed = True
        if self._reader is not None:
            self._reader.close()

    def __del__(self) -> None:
        if not self._closed:
            self.close()
