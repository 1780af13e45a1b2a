"""Where events lie in the bytes of a segment: found many at once with numpy, one by one without it. Pure.

Every event is stored behind eight bytes: type 0 and the payload's length, both 32 bits, big-endian. Read as
one 64-bit number the header *is* the length, and anything that is no event gives a number out of range.

Source: protocol, "Bytes in a segment".
"""

from __future__ import annotations

import struct
from array import array
from itertools import pairwise
from typing import Any, Final

from headrace.client.vectors import arrow_for_objects, find_numpy, get_arrow, int32_array, numpy_for
from headrace.errors import DataCorruptionError
from headrace.limits import EVENT_HEADER_BYTES

STORED_EVENT_BYTES_MAX: Final = 0x7FFF_FFFF
"""A header cannot announce more. Writers stop at 8 MiB, except those that upload large events out of band."""

Buffer = bytes | bytearray | memoryview

_LENGTH: Final = struct.Struct(">q")
_RUN_PROBES: Final = (8, 128, 2048, 32768)
_BACKOFF_MIN: Final = 64
_BACKOFF_MAX: Final = 1 << 20


def find_frames(buffer: Buffer, begin: int = 0, end: int | None = None) -> Any:
    """Find the whole events in ``buffer[begin:end]``, which starts at an event.

    Returns:
        Where each whole event starts, then where the last one ends: n + 1 ascending positions in
        ``buffer``, as a numpy array of int64 (``array('q')`` without numpy). An incomplete event at the end
        is left out.

    Raises:
        DataCorruptionError: a header is none. ``offset`` is its position in ``buffer``.
    """
    stop = len(buffer) if end is None else end
    np = numpy_for(stop - begin)
    return _find_each(buffer, begin, stop) if np is None else _find_series(np, buffer, begin, stop)


def _refuse(position: int, header: int) -> DataCorruptionError:
    kind, length = header >> 32, header & 0xFFFF_FFFF
    return DataCorruptionError(f"no event has type {kind} and length {length}", offset=position)


def _find_each(buffer: Buffer, position: int, stop: int) -> array[int]:
    found = array("q")
    _walk(buffer, position, stop, STORED_EVENT_BYTES_MAX, found)
    return found


def _walk(buffer: Buffer, position: int, stop: int, count: int, found: Any) -> tuple[int, bool]:
    """Add up to ``count`` starts to ``found``, then the end if nothing follows. Return the end and that
    fact.
    """
    unpack = _LENGTH.unpack_from
    add = found.append
    last = stop - EVENT_HEADER_BYTES
    while position <= last:
        length = unpack(buffer, position)[0]
        if not 0 <= length <= STORED_EVENT_BYTES_MAX:
            raise _refuse(position, length)
        after = position + EVENT_HEADER_BYTES + length
        if after > stop:
            break
        if not count:
            return position, False
        add(position)
        position = after
        count -= 1
    add(position)
    return position, True


def _find_series(np: Any, buffer: Buffer, position: int, stop: int) -> Any:
    """Compare the headers of a supposed series of equal lengths at once; walk a while where there is none."""
    pieces: list[Any] = []
    walk_events = _BACKOFF_MIN
    while True:
        count = _series_length(np, buffer, position, stop)
        if count:
            stride = EVENT_HEADER_BYTES + _LENGTH.unpack_from(buffer, position)[0]
            pieces.append(np.arange(position, position + count * stride, stride, dtype=np.int64))
            position += count * stride
        # Long series cost nothing to look for again; where lengths vary, look ever more rarely.
        walk_events = _BACKOFF_MIN if count >= _BACKOFF_MIN else min(2 * walk_events, _BACKOFF_MAX)
        found: list[int] = []
        position, finished = _walk(buffer, position, stop, walk_events, found)
        if found:
            pieces.append(np.array(found, dtype=np.int64))
        if finished:
            return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def _series_length(np: Any, buffer: Buffer, position: int, stop: int) -> int:
    """Return how many events from ``position`` on surely have the length of the first one (0: not worth
    it).
    """
    if stop - position < EVENT_HEADER_BYTES:
        return 0
    length = _LENGTH.unpack_from(buffer, position)[0]
    if not 0 <= length <= STORED_EVENT_BYTES_MAX:
        raise _refuse(position, length)
    stride = EVENT_HEADER_BYTES + length
    available = (stop - position) // stride
    if available < _RUN_PROBES[0]:
        return 0
    headers = np.ndarray((available,), np.uint64, buffer, position, (stride,))
    known = 0
    for probe in (*_RUN_PROBES, available):
        upto = min(probe, available)
        same = headers[known:upto] == headers[0]
        if not same.all():
            return int(known + same.argmin())
        known = upto
        if known == available:
            break
    return known


def payload_column(buffer: Buffer, frames: Any) -> Any:
    """Gather the payloads of events into a ``pyarrow.BinaryArray``.

    Args:
        buffer: where the events are; shorter than 2 GiB.
        frames: as :func:`find_frames` returns them.

    One copy, made by a single gather in C++: an array over ``buffer`` whose values alternate between
    headers and payloads is built without copying, and every second value is taken.
    """
    pa = get_arrow()
    np = find_numpy()
    assert np is not None  # get_arrow has checked
    starts = np.asarray(frames)
    count = len(starts) - 1
    if count <= 0:
        return pa.nulls(0, pa.binary())
    bounds = np.empty(2 * count + 1, np.int32)
    bounds[0::2] = starts
    np.add(starts[:-1], EVENT_HEADER_BYTES, out=bounds[1::2], casting="unsafe")
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(buffer)]
    alternating = pa.Array.from_buffers(pa.binary(), 2 * count, buffers)
    return alternating.take(int32_array(np.arange(1, 2 * count, 2, dtype=np.int32)))


def events_to_arrow(buffer: Buffer) -> Any:
    """Turn raw segment bytes that start at an event into a ``pyarrow.BinaryArray`` of payloads.

    An incomplete event at the end is left out.

    Raises:
        DataCorruptionError: the bytes are no events.
        UnsupportedError: pyarrow is not installed.
    """
    return payload_column(buffer, find_frames(buffer))


def payloads(buffer: Buffer, frames: Any) -> list[bytes]:
    """Return the payloads of events as ``bytes`` objects."""
    if len(frames) <= 1:
        return []
    if arrow_for_objects() is not None:
        found: list[bytes] = payload_column(buffer, frames).to_pylist()
        return found
    places = frames.tolist()
    base = places[0]
    raw = bytes(memoryview(buffer)[base : places[-1]])
    skip = EVENT_HEADER_BYTES - base
    return [raw[start + skip : after - base] for start, after in pairwise(places)]
