"""Turns events into the bytes of a segment, many at a time. Pure.

Source: protocol, "Bytes in a segment" and "Size limits".
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from operator import add
from typing import Any, Final

from headrace.client.framing.event_framing import STORED_EVENT_BYTES_MAX
from headrace.client.vectors import find_numpy, get_arrow, int32_array
from headrace.errors import EventTooLargeError, InvalidArgumentError
from headrace.limits import EVENT_BYTES_MAX, EVENT_HEADER_BYTES, MIB

_HEADER: Final = struct.Struct(">q")

Event = bytes | bytearray | memoryview | str
"""Text is written as UTF-8."""


SHORT_EVENT_BYTES: Final = 4097
SHORT_HEADERS: Final = [_HEADER.pack(length) for length in range(SHORT_EVENT_BYTES)]
"""Headers of events shorter than ``SHORT_EVENT_BYTES``, by length. The first one belongs to no legal event.
"""


_PIECE_BYTES: Final = 4 * MIB
"""Columns are framed in pieces of about this size: they fit into the processor's cache, and sending starts
early.
"""


def event_header(length: int) -> bytes:
    """Return the eight bytes in front of an event of ``length`` payload bytes.

    Raises:
        InvalidArgumentError: the event is empty; some readers of the protocol never get past such an event.
        EventTooLargeError: it is larger than 8 MiB.
    """
    if not 0 < length <= EVENT_BYTES_MAX:
        raise _illegal(length)
    return SHORT_HEADERS[length] if length < SHORT_EVENT_BYTES else _HEADER.pack(length)


def large_header(length: int) -> bytes:
    """Return the eight bytes in front of an event that may be larger than an append.

    Raises:
        InvalidArgumentError: the event is empty.
        EventTooLargeError: its length does not fit into a header.
    """
    check_length(length, STORED_EVENT_BYTES_MAX)
    return _HEADER.pack(length)


def check_length(length: int, bytes_max: int) -> None:
    """Check the length of an event. Raises as :func:`large_header`."""
    if not 0 < length <= bytes_max:
        raise _illegal(length, bytes_max)


def _illegal(length: int, bytes_max: int = EVENT_BYTES_MAX) -> InvalidArgumentError:
    if length == 0:
        return InvalidArgumentError("an event has at least one byte")
    return EventTooLargeError(length, bytes_max)


def own_bytes(data: Any) -> bytes:
    """Return what a caller gave as immutable ``bytes``.

    A view is measured in items, not in bytes: only what is returned has the length to be written down.

    Raises:
        InvalidArgumentError: it is not bytes.
    """
    if type(data) is bytes:
        return data
    try:
        return memoryview(data).tobytes()
    except TypeError as error:
        raise InvalidArgumentError(f"these are no bytes: {error}") from None


def own_event(event: Any) -> bytes:
    """Return the event as immutable ``bytes``; text becomes UTF-8.

    Raises:
        InvalidArgumentError: the event is neither bytes nor text.
    """
    if type(event) is bytes:
        return event
    try:
        return event.encode() if isinstance(event, str) else memoryview(event).tobytes()
    except TypeError:
        raise InvalidArgumentError(
            f"an event is bytes or str, not {type(event).__name__}; a writer with a serializer, such as "
            "serializer='json', takes other values"
        ) from None
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(f"an event is no text: {error}") from None


def own_events(events: Sequence[Event]) -> Sequence[bytes]:
    """Return the events as immutable ``bytes``.

    Raises:
        InvalidArgumentError: an event is neither bytes nor text, or ``events`` is one itself.
    """
    if isinstance(events, bytes | bytearray | memoryview | str):
        raise InvalidArgumentError(f"this is one event, and a sequence of events is wanted: {events!r:.40}")
    if set(map(type, events)) == {bytes}:
        return events  # type: ignore[return-value] # by the look at every type
    return list(map(own_event, events))


def frame_list(events: Sequence[Event]) -> tuple[bytes, list[int]]:
    """Frame events one after the other; the plain-Python twin of :func:`frame_pieces`.

    Args:
        events: at least one.

    Returns:
        The bytes, and where each event ends in them.

    Raises:
        InvalidArgumentError: an event is empty, or not bytes.
        EventTooLargeError: an event is larger than 8 MiB.
    """
    events = own_events(events)
    lengths = event_lengths(events)
    return b"".join(interleave(events, lengths)), list(frame_ends(lengths))


def frame_ends(lengths: list[int]) -> Sequence[int]:
    """Return where each event ends once they are framed, without numbers for events of one length."""
    length = lengths[0]
    if lengths.count(length) == len(lengths):
        step = length + EVENT_HEADER_BYTES
        return range(step, step * len(lengths) + 1, step)
    return list(accumulate([length + EVENT_HEADER_BYTES for length in lengths]))


def event_lengths(
    events: Sequence[bytes], prefixes: Sequence[bytes] | None = None, *, bytes_max: int = EVENT_BYTES_MAX
) -> list[int]:
    """Return the length of each of some events, at least one, with what is in front of it.

    Raises:
        InvalidArgumentError: an event is empty.
        EventTooLargeError: an event is larger than ``bytes_max``.
    """
    lengths = list(map(len, events))
    if prefixes is not None:
        lengths = list(map(add, lengths, map(len, prefixes)))
    least, most = lengths[0], lengths[0]
    if lengths.count(least) != len(lengths):
        least, most = min(lengths), max(lengths)
    if not 0 < least <= most <= bytes_max:
        raise _illegal(most if least else 0, bytes_max)
    return lengths


def interleave(
    events: Sequence[bytes], lengths: list[int], prefixes: Sequence[bytes] | None = None
) -> list[bytes]:
    """Return each event, of a legal length, behind its header and its prefix; not joined."""
    length = lengths[0]
    if lengths.count(length) == len(lengths):
        parts: list[bytes] = [event_header(length)] * (2 * len(lengths))
    else:
        parts = [b""] * (2 * len(lengths))
        parts[0::2] = [
            SHORT_HEADERS[length] if length < SHORT_EVENT_BYTES else _HEADER.pack(length)
            for length in lengths
        ]
    if prefixes is not None:
        parts[0::2] = map(add, parts[0::2], prefixes)
    parts[1::2] = events
    return parts


def frame_pieces(column: Any, bytes_max: int) -> Iterator[tuple[memoryview, Any, int]]:
    """Frame a ``pyarrow`` array of binary values (or strings) in pieces, without a Python object per event.

    Returns:
        Per piece: the bytes, where each event ends in them (a numpy array), the index of its first event. All
        values have been checked before the first piece is made.

    Raises:
        InvalidArgumentError: a value is null or empty, or no binary or string value.
        EventTooLargeError: a value is larger than 8 MiB, or all together exceed ``bytes_max``.
    """
    return _frame_chunks(checked_chunks(column, bytes_max))


def checked_chunks(column: Any, bytes_max: int, event_bytes_max: int = EVENT_BYTES_MAX) -> list[Any]:
    """Return the parts of a column that are not empty. Raises as :func:`frame_pieces`."""
    chunks = column.chunks if hasattr(column, "chunks") else [column]
    chunks = [chunk for chunk in chunks if len(chunk)]
    total = sum(chunk.nbytes for chunk in chunks)
    if total > bytes_max:
        raise EventTooLargeError(total, bytes_max)
    for chunk in chunks:
        _check_column(chunk, event_bytes_max)
    return chunks


def _check_column(column: Any, event_bytes_max: int) -> None:
    types = get_arrow().types
    kind = column.type
    if not (
        types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_string(kind)
        or types.is_large_string(kind)
    ):
        raise InvalidArgumentError(f"events are binary or string values, not {kind}")
    if column.null_count:
        raise InvalidArgumentError("an event cannot be null")
    compute = get_arrow().compute
    bounds = compute.min_max(compute.binary_length(column))
    least, most = bounds["min"].as_py(), bounds["max"].as_py()
    if not 0 < least <= most <= event_bytes_max:
        raise _illegal(most if least else 0, event_bytes_max)


def _frame_chunks(chunks: Iterable[Any]) -> Iterator[tuple[memoryview, Any, int]]:
    base = 0
    for chunk in chunks:
        step = max(1, len(chunk) * _PIECE_BYTES // max(chunk.nbytes, 1))
        for first in range(0, len(chunk), step):
            data, ends = frame_column(chunk.slice(first, step))
            yield data, ends, base + first
        base += len(chunk)


def frame_column(column: Any) -> tuple[memoryview, Any]:
    """Frame a ``pyarrow`` array of checked binary values (or strings), less than 2 GiB in all.

    Headers become a column of their own, which one kernel joins with the payloads. Returns the bytes, and
    where each event ends in them as a numpy array.
    """
    pa = get_arrow()
    np = find_numpy()
    assert np is not None  # get_arrow has checked
    count = len(column)
    column = column.cast(pa.binary()) if column.type != pa.binary() else column
    # Read from the buffer: ``to_numpy`` would import pandas, which takes a second of CPU.
    starts = column.buffers()[1]
    lengths = (
        np.diff(np.frombuffer(starts, np.int32, count + 1, 4 * column.offset))
        if count
        else np.zeros(0, np.int32)
    )
    headers = np.zeros((count, 2), ">i4")
    headers[:, 1] = lengths
    bounds = np.arange(0, EVENT_HEADER_BYTES * (count + 1), EVENT_HEADER_BYTES, dtype=np.int32)
    heads = pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(bounds), pa.py_buffer(headers)])
    framed = pa.compute.binary_join_element_wise(heads, column, pa.scalar(b"", pa.binary()))
    ends = np.cumsum(lengths, dtype=np.int64)
    ends += EVENT_HEADER_BYTES * np.arange(1, count + 1, dtype=np.int64)
    first = int(np.frombuffer(framed.buffers()[1], np.int32, 1, 4 * framed.offset)[0])
    return memoryview(framed.buffers()[2])[first : first + int(ends[-1])].cast("B"), ends


def gather_frames(data: memoryview, ends: Any, chosen: Any) -> tuple[memoryview, Any]:
    """Copy the chosen of some framed events next to each other.

    Args:
        data: framed events.
        ends: where each of them ends, as a numpy array.
        chosen: indices, ascending, as a numpy array.

    Returns:
        The bytes, and where each event ends in them.
    """
    pa = get_arrow()
    np = find_numpy()
    assert np is not None  # get_arrow has checked
    bounds = np.empty(len(ends) + 1, np.int32)
    bounds[0] = 0
    bounds[1:] = ends
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    taken = pa.Array.from_buffers(pa.binary(), len(ends), buffers).take(int32_array(chosen.astype(np.int32)))
    offsets = np.frombuffer(taken.buffers()[1], np.int32, len(chosen) + 1)
    return memoryview(taken.buffers()[2])[: int(offsets[-1])].cast("B"), offsets[1:].astype(np.int64)


def cut_into_blocks(ends: Any, bytes_max: int) -> Iterator[tuple[int, int]]:
    """Cut framed events into blocks of at most ``bytes_max`` bytes; a larger event is a block alone.

    Args:
        ends: where each event ends, ascending (a sequence or a numpy array).
        bytes_max: size of a block.

    Yields:
        Pairs (first event, event behind the last).
    """
    count = len(ends)
    find = _search_right if hasattr(ends, "searchsorted") else bisect_right
    first, base = 0, 0
    while first < count:
        after = max(find(ends, base + bytes_max), first + 1)
        yield first, after
        base = int(ends[after - 1])
        first = after


def _search_right(ends: Any, value: int) -> int:
    return int(ends.searchsorted(value, side="right"))
