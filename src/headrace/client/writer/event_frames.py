"""Turns events into the bytes of a segment, many at a time. Pure.

Source: protocol, "Bytes in a segment" and "Size limits".
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any, Final

from headrace.client.vectors import find_arrow, find_numpy
from headrace.errors import EventTooLargeError, InvalidArgumentError
from headrace.limits import EVENT_BYTES_MAX, EVENT_HEADER_BYTES

_HEADER: Final = struct.Struct(">q")

Event = bytes | bytearray | memoryview


SHORT_EVENT_BYTES: Final = 4097
SHORT_HEADERS: Final = [_HEADER.pack(length) for length in range(SHORT_EVENT_BYTES)]
"""Headers of events shorter than ``SHORT_EVENT_BYTES``, by length. The first one belongs to no legal event.
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


def _illegal(length: int) -> InvalidArgumentError:
    if length == 0:
        return InvalidArgumentError("an event has at least one byte")
    return EventTooLargeError(length, EVENT_BYTES_MAX)


def frame_event(event: Event) -> bytes:
    """Return the event with its header. Raises as :func:`event_header`."""
    return event_header(len(event)) + event


def frame_list(events: Sequence[Event]) -> tuple[bytes, list[int]]:
    """Frame events one after the other; the pure-Python twin of :func:`frame_column`.

    Returns:
        The bytes, and where each event ends in them.
    """
    parts: list[Event] = []
    ends: list[int] = []
    end = 0
    for event in events:
        length = len(event)
        parts.append(event_header(length))
        parts.append(event)
        end += EVENT_HEADER_BYTES + length
        ends.append(end)
    return b"".join(parts), ends


def frame_column(column: Any) -> tuple[memoryview, Any]:
    """Frame a ``pyarrow`` array of binary values (or strings) without a Python object per event.

    Returns:
        The bytes, and where each event ends in them as a numpy array.

    Raises:
        InvalidArgumentError: a value is null or empty, or all values together exceed 2 GiB.
        EventTooLargeError: a value is larger than 8 MiB.
    """
    pa = find_arrow()
    np = find_numpy()
    assert pa is not None
    assert np is not None
    count = len(column)
    if column.null_count:
        raise InvalidArgumentError("an event cannot be null")
    column = column.cast(pa.binary()) if column.type != pa.binary() else column
    lengths = pa.compute.binary_length(column).to_numpy(zero_copy_only=False)
    for bound in (int(lengths.min()), int(lengths.max())):
        if not 0 < bound <= EVENT_BYTES_MAX:
            raise _illegal(bound)
    headers = np.zeros((count, 2), ">i4")
    headers[:, 1] = lengths
    bounds = np.arange(0, EVENT_HEADER_BYTES * (count + 1), EVENT_HEADER_BYTES, dtype=np.int32)
    heads = pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(bounds), pa.py_buffer(headers)])
    framed = pa.compute.binary_join_element_wise(heads, column, pa.scalar(b"", pa.binary()))
    ends = np.cumsum(lengths, dtype=np.int64)
    ends += EVENT_HEADER_BYTES * np.arange(1, count + 1, dtype=np.int64)
    first = int(np.frombuffer(framed.buffers()[1], np.int32, 1, 4 * framed.offset)[0])
    return memoryview(framed.buffers()[2])[first : first + int(ends[-1])].cast("B"), ends


def cut_into_blocks(ends: Any, bytes_max: int) -> Iterable[tuple[int, int]]:
    """Cut a run of framed events into blocks of at most ``bytes_max`` bytes; a larger event is a block alone.

    Args:
        ends: where each event ends, ascending (list or numpy array).
        bytes_max: size of a block.

    Yields:
        Pairs (first event, event behind the last).
    """
    count = len(ends)
    first, base = 0, 0
    np = find_numpy()
    while first < count:
        if np is not None and not isinstance(ends, list):
            after = int(np.searchsorted(ends, base + bytes_max, side="right"))
        else:
            after = first
            while after < count and ends[after] <= base + bytes_max:
                after += 1
        after = max(after, first + 1)
        yield first, after
        base = int(ends[after - 1])
        first = after
