"""What a caller of a blocking writer gave, checked and made the writer's own before the call returns.

The loop's thread takes it later. By then the caller may have cleared the list, and only a caller
that waits for this batch would be notified of a mistake in it.
"""

from __future__ import annotations

from typing import Any

from headrace.client.framing.event_frames import checked_chunks, event_lengths, own_events
from headrace.client.records.columns import RecordColumn
from headrace.client.records.event_forms import RecordList
from headrace.client.vectors import is_arrow
from headrace.client.writer.routed_writer import MANY_BYTES_MAX
from headrace.client.writer.routing import checked_keys
from headrace.errors import EventTooLargeError, InvalidArgumentError
from headrace.limits import EVENT_BYTES_MAX, EVENT_HEADER_BYTES


def own_batch(events: Any, keys: Any, event_bytes_max: int) -> tuple[Any, Any, int]:
    """Return immutable events and keys, and at least the bytes that they will take.

    The other arguments and errors are those of :meth:`RoutedWriter.write_many`.
    """
    count = len(events)
    if not count:
        return (), None, 0
    if keys is not None and not isinstance(keys, str):
        if len(keys) != count:
            raise InvalidArgumentError(f"{len(keys)} keys do not fit {count} events")
        keys = checked_keys(keys)
    if is_arrow(events):
        checked_chunks(events, MANY_BYTES_MAX, event_bytes_max)
        return events, keys, int(events.nbytes) + EVENT_HEADER_BYTES * count
    if isinstance(events, RecordColumn):
        return events, keys, events.nbytes + EVENT_HEADER_BYTES * count
    if isinstance(events, RecordList):
        lengths = event_lengths(events.values, events.prefixes, bytes_max=event_bytes_max)
        size_bytes = sum(lengths) + EVENT_HEADER_BYTES * count
        owned: Any = events
    else:
        owned, size_bytes = own_list(events, event_bytes_max)
    if size_bytes > MANY_BYTES_MAX:
        raise EventTooLargeError(size_bytes, MANY_BYTES_MAX)
    return owned, keys, size_bytes


def own_list(events: Any, event_bytes_max: int = EVENT_BYTES_MAX) -> tuple[list[bytes], int]:
    """Return a copy of a list of at least one event, and the bytes they take with their headers.

    Raises:
        InvalidArgumentError: an event is empty, or not bytes.
        EventTooLargeError: an event is larger than ``event_bytes_max``.
    """
    owned = list(own_events(events))
    return owned, sum(event_lengths(owned, bytes_max=event_bytes_max)) + EVENT_HEADER_BYTES * len(owned)
