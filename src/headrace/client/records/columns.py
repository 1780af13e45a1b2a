"""Envelopes of whole batches: columns made into records and records cut into columns, without an object per
event. Pure; needs numpy and pyarrow.

Source: ``docs/formats/record.md``.
"""

from __future__ import annotations

from typing import Any, Final

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
    prefix_of,
    time_ms_of,
)
from headrace.client.vectors import find_numpy, get_arrow, is_arrow
from headrace.errors import EventTooLargeError, InvalidArgumentError
from headrace.limits import MIB

COLUMN_BYTES_MAX: Final = 512 * MIB
"""Of the values that become records at once."""

HEAD_FIELDS: Final = [("mark", "u1"), ("version", "u1"), ("time", ">i8"), ("key", ">u2"), ("headers", ">u2")]


def wrap_column(values: Any, keys: Any, times: Any, headers: Any) -> Any:
    """Return records as a ``pyarrow.BinaryArray``.

    Args:
        values: a ``pyarrow`` array of binary values or strings; they may be empty.
        keys: one for all, or a sequence or ``pyarrow`` array of strings; None: none has one.
        times: ms for all, or one time for each.
        headers: encoded ones of all, or those of each.

    Raises:
        InvalidArgumentError: a value or a key is null, or anything is of a wrong type.
        EventTooLargeError: all together are larger than 512 MiB.
    """
    pa, np = get_arrow(), find_numpy()
    assert np is not None  # get_arrow has checked
    count, nothing = len(values), pa.scalar(b"", pa.binary())
    values = _as_binary(values)
    if (keys is None or isinstance(keys, str)) and isinstance(times, int) and isinstance(headers, bytes):
        prefix = pa.scalar(prefix_of(keys, times, headers), pa.binary())
        return pa.compute.binary_join_element_wise(prefix, values, nothing)
    heads = np.zeros(count, HEAD_FIELDS)
    heads["mark"], heads["version"] = MARK, VERSION
    heads["time"] = times if isinstance(times, int) else times_of_column(times)
    parts: list[Any] = []
    if keys is None:
        heads["key"] = NO_KEY
    else:
        parts.append(_key_part(keys))
        heads["key"] = len(parts[-1].as_py()) if isinstance(keys, str) else _lengths(parts[-1])
    if isinstance(headers, bytes):
        heads["headers"] = len(headers)
        if headers:
            parts.append(pa.scalar(headers, pa.binary()))
    else:
        parts.append(_binary_array(headers_of_each(headers)))
        heads["headers"] = _lengths(parts[-1])
    bounds = np.arange(0, HEAD_BYTES * (count + 1), HEAD_BYTES, dtype=np.int32)
    first = pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(bounds), pa.py_buffer(heads)])
    return pa.compute.binary_join_element_wise(first, *parts, values, nothing)


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
    """Return how long each value of a binary column is, as a numpy array."""
    np = find_numpy()
    assert np is not None  # there is a column
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
