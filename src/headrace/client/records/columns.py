"""Envelopes of whole batches: columns made into records and records cut into columns, without an object per
event. Pure; needs numpy and pyarrow.

Source: ``docs/formats/record.md``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from headrace.client.framing.event_frames import event_header
from headrace.client.records.envelope import (
    HEAD_BYTES,
    KEY_BYTES_MAX,
    MARK,
    NO_KEY,
    TIME_MS_MAX,
    TIME_MS_MIN,
    VERSION,
    encode_headers,
    key_bytes,
    time_ms_of,
)
from headrace.client.vectors import find_numpy, get_arrow, is_arrow
from headrace.errors import EventTooLargeError, InvalidArgumentError
from headrace.limits import EVENT_HEADER_BYTES, MIB

COLUMN_BYTES_MAX: Final = 512 * MIB
"""Of the values that become records at once."""

_PIECE_BYTES: Final = 4 * MIB

_HEAD_FIELDS: Final = [
    *(("type", ">i4"), ("length", ">i4")),  # of the frame
    *(("mark", "u1"), ("version", "u1"), ("time", ">i8"), ("key", ">u2"), ("headers", ">u2")),
]


class RecordColumn:
    """Records whose parts are columns. They become frames when they are sent, in one go.

    Raises:
        InvalidArgumentError: a value or a key is null, or anything is of a wrong type.
        EventTooLargeError: a record is larger than 8 MiB, or all values together than 512 MiB.
    """

    __slots__ = ("_heads", "_lengths", "_parts", "nbytes")

    def __init__(self, values: Any, keys: Any, times: Any, headers: Any) -> None:
        """Check the columns and find the lengths.

        Args:
            values: a ``pyarrow`` array of binary values or strings; they may be empty.
            keys: one for all, or a sequence or ``pyarrow`` array of strings; None: none has one.
            times: ms for all, or one time for each.
            headers: encoded ones of all, or those of each.
        """
        pa, np = get_arrow(), find_numpy()
        assert np is not None  # get_arrow has checked
        values = _as_binary(values)
        heads = np.zeros(len(values), _HEAD_FIELDS)
        lengths = _lengths(values) + np.int32(HEAD_BYTES)
        heads["mark"], heads["version"] = MARK, VERSION
        heads["time"] = times if isinstance(times, int) else times_of_column(times)
        self._parts: list[Any] = []
        if keys is None:
            heads["key"] = NO_KEY
        else:
            self._parts.append(_key_part(keys))
            heads["key"] = key_lengths = _lengths(self._parts[-1])
            lengths += key_lengths
        if headers:
            each = isinstance(headers, bytes)
            self._parts.append(
                pa.scalar(headers, pa.binary()) if each else _binary_array(headers_of_each(headers))
            )
            heads["headers"] = header_lengths = _lengths(self._parts[-1])
            lengths += header_lengths
        if len(lengths):
            event_header(int(lengths.max()))
        heads["length"] = lengths
        self._parts.append(values)
        self._heads = heads
        self._lengths = lengths
        self.nbytes = int(lengths.sum(dtype=np.int64))
        """Of all records, without the headers of their frames."""

    def __len__(self) -> int:
        return len(self._lengths)

    def __iter__(self) -> Iterator[bytes]:
        """Return an iterator over whole records."""
        for data, ends, _ in self.frame_pieces():
            begin = 0
            for end in ends.tolist():
                yield bytes(data[begin + EVENT_HEADER_BYTES : end])
                begin = end

    def frame_pieces(self) -> Iterator[tuple[memoryview, Any, int]]:
        """Yield frames in pieces of a few MiB, as ``frame_pieces`` of :mod:`event_frames` does."""
        count = len(self)
        step = max(1, count * _PIECE_BYTES // max(self.nbytes, 1))
        for first in range(0, count, step):
            data, ends = self._framed(first, min(first + step, count))
            yield data, ends, first

    def _framed(self, first: int, after: int) -> tuple[memoryview, Any]:
        pa, np = get_arrow(), find_numpy()
        assert np is not None
        heads, size = self._heads[first:after], self._heads.itemsize
        bounds = np.arange(0, size * (len(heads) + 1), size, dtype=np.int32)
        column = pa.Array.from_buffers(
            pa.binary(), len(heads), [None, pa.py_buffer(bounds), pa.py_buffer(heads)]
        )
        parts = [
            part if isinstance(part, pa.Scalar) else part.slice(first, after - first) for part in self._parts
        ]
        framed = pa.compute.binary_join_element_wise(column, *parts, pa.scalar(b"", pa.binary()))
        ends = np.cumsum(self._lengths[first:after], dtype=np.int64)
        ends += EVENT_HEADER_BYTES * np.arange(1, len(heads) + 1, dtype=np.int64)
        begin = int(np.frombuffer(framed.buffers()[1], np.int32, 1, 4 * framed.offset)[0])
        return memoryview(framed.buffers()[2])[begin : begin + int(ends[-1])].cast("B"), ends


def _as_binary(values: Any) -> Any:
    pa = get_arrow()
    kind = values.type
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if not (is_text or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
        raise InvalidArgumentError(f"events are binary or string values, not {kind}")
    if values.null_count:
        raise InvalidArgumentError("an event cannot be null")
    if values.nbytes > COLUMN_BYTES_MAX:
        raise EventTooLargeError(values.nbytes, COLUMN_BYTES_MAX)
    return _whole(values).cast(pa.binary())


def _whole(column: Any) -> Any:
    """Return a column in one piece."""
    if hasattr(column, "chunks"):
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return column


def _key_part(keys: Any) -> Any:
    """Return the bytes of keys, of all of them as a scalar if it is one."""
    pa = get_arrow()
    if isinstance(keys, str):
        return pa.scalar(key_bytes(keys), pa.binary())
    if not is_arrow(keys):
        return _binary_array([key_bytes(key) for key in keys])
    if keys.null_count:
        raise InvalidArgumentError("a routing key is null")
    kind = keys.type.value_type if pa.types.is_dictionary(keys.type) else keys.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise InvalidArgumentError(f"routing keys are strings, not {kind}")
    found = _whole(keys).cast(pa.string()).cast(pa.binary())
    longest = max(_lengths(found), default=0)
    if longest > KEY_BYTES_MAX:
        raise InvalidArgumentError(f"a key of {longest} bytes is too long: a record has {KEY_BYTES_MAX}")
    return found


def _binary_array(values: list[bytes]) -> Any:
    """Return values as an array. ``pa.array`` would import pandas, which takes a second of CPU."""
    pa, np = get_arrow(), find_numpy()
    assert np is not None  # get_arrow has checked
    bounds = np.zeros(len(values) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, values), np.int32, len(values)), out=bounds[1:])
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(b"".join(values))]
    return pa.Array.from_buffers(pa.binary(), len(values), buffers)


def _lengths(column: Any) -> Any:
    """Return how long each value of a binary column is, as a numpy array; the length of a scalar."""
    np = find_numpy()
    assert np is not None  # there is a column
    if isinstance(column, get_arrow().Scalar):
        return np.int32(len(column.as_py()))
    bounds = np.frombuffer(column.buffers()[1], np.int32, len(column) + 1, 4 * column.offset)
    return np.diff(bounds)


def times_of_column(times: Any) -> Any:
    """Return times of several records in ms, as a numpy array.

    Raises:
        InvalidArgumentError: one is null, has no zone, or is out of range.
    """
    pa, np = get_arrow(), find_numpy()
    assert np is not None  # get_arrow has checked
    if not is_arrow(times):
        return np.fromiter(times_of_each(times), np.int64, len(times))
    kind = times.type
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        times = times.cast(pa.timestamp("ms", kind.tz), safe=False).cast(pa.int64())
    elif not pa.types.is_integer(kind):
        raise InvalidArgumentError(f"times are timestamps with a zone, or ms since 1970, not {kind}")
    if times.null_count:
        raise InvalidArgumentError("the time of a record is null")
    whole = _whole(times).cast(pa.int64())
    found = np.frombuffer(whole.buffers()[1], np.int64, len(whole), 8 * whole.offset)
    if len(found) and not (TIME_MS_MIN <= found.min() and found.max() <= TIME_MS_MAX):
        raise InvalidArgumentError("the time of a record is not in the years 1 to 9999")
    return found


def times_of_each(times: Any) -> list[int]:
    """Return times of several records in ms. Raises InvalidArgumentError."""
    if is_arrow(times):
        return times_of_column(times).tolist()  # type: ignore[no-any-return]
    return [time_ms_of(time) for time in (times.tolist() if hasattr(times, "tolist") else times)]


def headers_of_each(headers: Any) -> list[bytes]:
    """Return headers of several records, encoded. Raises InvalidArgumentError."""
    if is_arrow(headers):
        headers = [None if pairs is None else dict(pairs) for pairs in headers.to_pylist()]
    return [encode_headers(each) for each in headers]
