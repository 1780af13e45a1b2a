"""What a caller wants written, whatever its form, as batches of bytes with their keys. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from headrace.client.framing.event_frames import own_event
from headrace.client.serializers import Codec
from headrace.client.vectors import is_arrow
from headrace.errors import InvalidArgumentError
from headrace.limits import EVENT_BYTES_MAX, EVENT_HEADER_BYTES, MIB

BATCH_EVENTS_MAX: Final = 8192
BATCH_BYTES_MAX: Final = 8 * MIB
"""Of a batch of several events."""
_AT_ONCE: Final = 32
"""Events that are taken before their bytes are counted: each may be as large as a batch."""

GivenKey = str | Sequence[str] | Callable[[Any], str] | None
"""One key for all events; one for each; what makes one of an event; or None: events are spread evenly."""

Batch = tuple[Any, Any]
"""Events and keys, for ``write_many``."""

_ONE_EVENT: Final = (bytes, bytearray, memoryview, str, Mapping)


def batches_of(events: Any, key: GivenKey, codec: Codec | None) -> Iterator[Batch]:
    """Yield batches that are not too large for a writer without a serializer.

    Args:
        events: any number of events, taken as they are needed, or a ``pyarrow`` array; or one event: bytes,
            text, a mapping, and what cannot be iterated.
        key: of all events, or each.
        codec: turns events into bytes.

    Raises:
        InvalidArgumentError: an event is none, or keys and events differ in number. Batches that were yielded
            before are good.
    """
    if not (key is None or isinstance(key, str | Iterable) or callable(key)):
        raise InvalidArgumentError(f"a key is text, one for each event, or a function, not {key!r:.40}")
    if is_arrow(events):
        yield from _batches_of_column(events, key)
        return
    if hasattr(type(events), "__dataframe__"):  # pandas iterates over the names of its columns
        raise InvalidArgumentError(
            "a frame is no events: give one column of it, or its rows, such as frame.to_dict('records') with "
            "serializer='json'"
        )
    if isinstance(events, _ONE_EVENT) or not isinstance(events, Iterable):
        events = [events]
    keys = None if key is None or isinstance(key, str) or callable(key) else iter(key)
    encode = own_event if codec is None else codec.encode
    source = iter(events)
    while True:
        values, batch = _take(source, encode)
        if not values:
            break
        yield from _cut(batch, _keys_of(values, key, keys))
    if keys is not None and next(keys, None) is not None:
        raise InvalidArgumentError("there are more keys than events")


def _take(source: Iterator[Any], encode: Callable[[Any], bytes]) -> tuple[list[Any], list[bytes]]:
    """Return the next values and the events they are; few of them if they are large."""
    values: list[Any] = []
    batch: list[bytes] = []
    size = 0
    while size <= BATCH_BYTES_MAX and (left := BATCH_EVENTS_MAX - len(values)):
        some = list(islice(source, min(left, _AT_ONCE)))
        if not some:
            break
        events = list(map(encode, some))
        values += some
        batch += events
        size += sum(map(len, events))
    return values, batch


def _keys_of(values: list[Any], key: GivenKey, keys: Iterator[str] | None) -> Any:
    if keys is not None:
        found = list(islice(keys, len(values)))
        if len(found) < len(values):
            raise InvalidArgumentError("there are fewer keys than events")
        return found
    return list(map(key, values)) if callable(key) else key


def _cut(batch: list[bytes], keys: Any) -> Iterator[Batch]:
    """Divide a batch that has too many bytes."""
    if sum(map(len, batch)) <= BATCH_BYTES_MAX:
        yield batch, keys
        return
    first, size = 0, 0
    for place, event in enumerate(batch):
        if size and size + len(event) > BATCH_BYTES_MAX:
            yield batch[first:place], keys[first:place] if isinstance(keys, list) else keys
            first, size = place, 0
        size += len(event)
    yield batch[first:], keys[first:] if isinstance(keys, list) else keys


def _batches_of_column(column: Any, key: GivenKey) -> Iterator[Batch]:
    if callable(key):
        raise InvalidArgumentError("an Arrow array takes its keys as an array or a list, not from a function")
    count = len(column)
    if isinstance(key, Iterator):
        raise InvalidArgumentError("an Arrow array takes its keys as an array or a list, not one by one")
    if not (key is None or isinstance(key, str)) and len(key) != count:
        raise InvalidArgumentError(f"{len(key)} keys do not fit {count} events")
    step = max(1, min(count, count * BATCH_BYTES_MAX // max(1, column.nbytes + EVENT_HEADER_BYTES * count)))
    for first in range(0, count, step):
        keys = key if key is None or isinstance(key, str) else key[first : first + step]
        yield column.slice(first, step), keys


assert BATCH_EVENTS_MAX * EVENT_HEADER_BYTES < EVENT_BYTES_MAX <= BATCH_BYTES_MAX
