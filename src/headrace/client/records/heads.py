"""Which events of a batch are records, and columns of their parts: with numpy and Arrow over the whole batch,
without an object per event. Pure.

Source: ``docs/formats/record.md``.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

from headrace.client.records.envelope import (
    HEAD_BYTES,
    HEADERS_MAX,
    MARK,
    NO_KEY,
    TIME_MS_MAX,
    TIME_MS_MIN,
    VERSION,
    read_head,
)
from headrace.client.vectors import find_numpy, get_arrow, int32_array, numpy_for
from headrace.limits import EVENT_HEADER_BYTES

_FEW_EVENTS: Final = 32
"""Fewer are looked at one by one: arrays would cost more."""
_SIGN: Final = MARK << 8 | VERSION
_FIELDS: Final = [("sign", ">u2"), ("time", ">i8"), ("key", ">u2"), ("headers", ">u2")]


class DamagedHeadersError(ValueError):
    """The headers of a record are none."""

    def __init__(self, index: int) -> None:
        super().__init__("its headers are damaged")
        self.index = index
        """Of the record in its batch."""


def find_records(buffer: Any, frames: Any) -> tuple[Any, list[bool] | None]:
    """Look at the heads of framed events.

    Returns:
        What :class:`Columns` takes, and which events are records; None: all are.
    """
    count = len(frames) - 1
    np = None if count < _FEW_EVENTS else numpy_for(int(frames[-1]) - int(frames[0]))
    if np is None:
        each = [
            not isinstance(read_head(buffer, begin + EVENT_HEADER_BYTES, end), str)
            for begin, end in pairwise(frames if isinstance(frames, list) else frames.tolist())
        ]
        return None, None if all(each) else each
    heads, lengths = _heads(np, buffer, np.asarray(frames))
    key = heads["key"].astype(np.int32)
    key[key == NO_KEY] = 0
    key += heads["headers"]
    key += HEAD_BYTES
    time = heads["time"].astype(np.int64)
    found = (heads["sign"] == _SIGN) & (key <= lengths) & (time >= TIME_MS_MIN) & (time <= TIME_MS_MAX)
    return heads, None if found.all() else found.tolist()


def _heads(np: Any, buffer: Any, frames: Any) -> tuple[Any, Any]:
    """Return the first bytes of each event as fields, and its length; of a short event they are anything."""
    starts = frames[:-1] + EVENT_HEADER_BYTES
    lengths = frames[1:] - starts
    last = len(buffer) - HEAD_BYTES
    if last < 0:  # no record fits
        return np.zeros(len(starts), _FIELDS), lengths
    if int(starts[-1]) > last or lengths.min() < HEAD_BYTES:
        starts = np.minimum(starts, last)
    anywhere = np.ndarray((last + 1,), f"V{HEAD_BYTES}", buffer, 0, (1,))
    return anywhere[starts].view(_FIELDS), lengths


class Columns:
    """Parts of records, all of which are ones, in columns."""

    __slots__ = ("_buffer", "_frames", "_heads")

    def __init__(self, buffer: Any, frames: Any, heads: Any) -> None:
        """``heads`` are those that :func:`find_records` returned, perhaps a slice of them, or None."""
        np = find_numpy()
        if np is None:
            get_arrow()  # raises
        assert np is not None
        self._buffer = buffer
        self._frames = np.asarray(frames)
        self._heads = _heads(np, buffer, self._frames)[0] if heads is None else heads

    def values(self) -> Any:
        """Return the values as a ``pyarrow.BinaryArray``: one copy, made by a single gather."""
        np = find_numpy()
        assert np is not None
        begins = self._headers_begin()
        begins += self._heads["headers"]
        return self._gathered(begins, self._frames[1:])

    def keys(self) -> Any:
        """Return the keys as a ``pyarrow.BinaryArray``, null where there is none."""
        pa, np = get_arrow(), find_numpy()
        assert np is not None
        lengths = self._heads["key"].astype(np.int32)
        has_key = lengths != NO_KEY
        if not has_key.any():
            return pa.nulls(len(lengths), pa.binary())
        lengths[~has_key] = 0
        begins = self._frames[:-1] + (EVENT_HEADER_BYTES + HEAD_BYTES)
        found = self._gathered(begins, begins + lengths)
        if has_key.all():
            return found
        validity = pa.py_buffer(np.packbits(has_key, bitorder="little"))
        return pa.Array.from_buffers(pa.binary(), len(found), [validity, *found.buffers()[1:]])

    def times_ms(self) -> Any:
        """Return the times in ms since 1970, as a numpy array."""
        np = find_numpy()
        assert np is not None
        return self._heads["time"].astype(np.int64)

    def times(self) -> Any:
        """Return the times as a ``pyarrow.TimestampArray`` of milliseconds in UTC."""
        pa = get_arrow()
        numbers = self.times_ms()
        return pa.Array.from_buffers(pa.timestamp("ms", "UTC"), len(numbers), [None, pa.py_buffer(numbers)])

    def headers(self) -> Any:
        """Return the headers as a ``pyarrow.MapArray`` of text to binary.

        Raises:
            DamagedHeadersError: those of an event are none.
        """
        pa, np = get_arrow(), find_numpy()
        assert np is not None
        count = len(self._heads)
        if not self._heads["headers"].any():
            nothing = pa.nulls(0, pa.string()), pa.nulls(0, pa.binary())
            return pa.MapArray.from_arrays(int32_array(np.zeros(count + 1, np.int32)), *nothing)
        rows, places = self._header_places(np)
        bounds = np.zeros(count + 1, np.int32)
        np.cumsum(np.bincount(rows, minlength=count), out=bounds[1:])
        parts = pa.Array.from_buffers(
            pa.binary(), max(0, places.size - 1), [None, pa.py_buffer(places), pa.py_buffer(self._buffer)]
        )
        names = parts.take(int32_array(np.arange(0, places.size, 4, dtype=np.int32)))
        values = parts.take(int32_array(np.arange(2, places.size, 4, dtype=np.int32)))
        try:
            texts = names.cast(pa.string())
        except pa.ArrowInvalid:
            raise DamagedHeadersError(int(rows[_first_no_text(names)])) from None
        return pa.MapArray.from_arrays(int32_array(bounds), texts, values)

    def _header_places(self, np: Any) -> tuple[Any, Any]:
        """Return of each header its event, and where its name begins and ends, and its value.

        All first headers are looked at together, then all second ones, and so on.
        """
        octets = np.frombuffer(self._buffer, np.uint8)
        place = self._headers_begin()
        end = place + self._heads["headers"]
        rows = np.flatnonzero(place < end)
        found: list[Any] = []
        for _ in range(HEADERS_MAX):
            if not len(rows):
                break
            begin = place[rows] + 1
            name_end = begin + octets[begin - 1]
            stop = end[rows]
            # Of a header that is cut off whatever lies there is read, within the buffer, and refused below.
            at = np.minimum(name_end, len(octets) - 2)
            value_begin = name_end + 2
            value_end = value_begin + (octets[at].astype(np.int64) << 8) + octets[at + 1]
            wrong = (value_begin > stop) | (value_end > stop) | (name_end == begin)
            if wrong.any():
                raise DamagedHeadersError(int(rows[wrong.argmax()]))
            found.append(np.stack([rows, begin, name_end, value_begin, value_end], axis=1))
            place[rows] = value_end
            rows = rows[value_end < stop]
        if len(rows):
            raise DamagedHeadersError(int(rows[0]))
        each = np.concatenate(found)
        each = each[np.argsort(each[:, 0], kind="stable")]
        return each[:, 0], np.ascontiguousarray(each[:, 1:]).reshape(-1).astype(np.int32)

    def _headers_begin(self) -> Any:
        """Return where in the buffer the headers of each event begin."""
        np = find_numpy()
        assert np is not None
        key = self._heads["key"].astype(np.int64)
        key[key == NO_KEY] = 0
        key += self._frames[:-1]
        key += EVENT_HEADER_BYTES + HEAD_BYTES
        return key

    def _gathered(self, begins: Any, ends: Any) -> Any:
        """Return parts of the buffer, in ascending order, next to each other."""
        pa, np = get_arrow(), find_numpy()
        assert np is not None
        count = len(begins)
        bounds = np.empty(2 * count, np.int32)
        bounds[0::2] = begins
        bounds[1::2] = ends
        buffers = [None, pa.py_buffer(bounds), pa.py_buffer(self._buffer)]
        parts = pa.Array.from_buffers(pa.binary(), 2 * count - 1, buffers)
        return parts.take(int32_array(np.arange(0, 2 * count, 2, dtype=np.int32)))


def _first_no_text(names: Any) -> int:
    for index, name in enumerate(names.to_pylist()):
        try:
            name.decode()
        except UnicodeDecodeError:
            return index
    return 0
