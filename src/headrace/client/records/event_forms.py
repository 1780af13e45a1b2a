"""What becomes of an event that an application gives, before it is framed: its bytes, or a record.

Pure but for the clock, which is asked by a record that is given no time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from operator import add
from typing import Any, Protocol

from headrace.client.framing.event_frames import own_event, own_events
from headrace.client.records.columns import RecordColumn, headers_of_each, times_of_each
from headrace.client.records.envelope import Headers, encode_headers, prefix_of, prefixes_of, time_ms_of
from headrace.client.serializers import Codec
from headrace.client.vectors import is_arrow
from headrace.errors import InvalidArgumentError

Time = datetime | int
"""With a zone, or ms since 1970."""


class EncodedEvent:
    """The type of no event: whatever there is has to become bytes."""


class EventForm(Protocol):
    """How the events of a stream are written."""

    plain: type[object]
    """Events of this type, without time and headers, are written as they are."""

    def one(self, event: Any, key: str | None, time: Time | None, headers: Headers | None) -> bytes:
        """Return the bytes of an event. Raises InvalidArgumentError."""

    def prefix(self, key: str | None, time: Time | None, headers: Headers | None) -> bytes:
        """Return what stands in front of the bytes of an event. Raises InvalidArgumentError."""

    def many(self, events: Any, keys: Any, times: Any, headers: Any) -> Any:
        """Return the bytes of each event: a sequence, a ``pyarrow`` array, or records in one of two forms.

        Args:
            events: what is written.
            keys: one for all, one for each, or None; not checked here if they stay outside of the bytes.
            times: one for all, one for each, or None: now.
            headers: those of all, those of each, or None.

        Raises:
            InvalidArgumentError: one of them is none, or they differ in number.
        """


class RecordList:
    """Records whose values are referred to, not copied: what is in front of each stands beside it."""

    __slots__ = ("prefixes", "values")

    def __init__(self, values: Sequence[bytes], prefixes: list[bytes]) -> None:
        self.values = list(values)
        self.prefixes = prefixes

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[bytes]:
        """Return an iterator over whole records."""
        return map(add, self.prefixes, self.values)


class PlainForm:
    """Events are bytes, or what a serializer makes of values; times and headers have no place."""

    def __init__(self, stream: str = "", codec: Codec | None = None) -> None:
        self._stream = stream
        self._codec = codec
        self.plain: type[object] = bytes if codec is None else EncodedEvent
        self._encode: Callable[[Any], bytes] = own_event if codec is None else codec.encode

    def one(self, event: Any, _: str | None, time: Time | None, headers: Headers | None) -> bytes:
        """See :meth:`EventForm.one`."""
        self._check_plain(time, headers)
        return self._encode(event)

    def prefix(self, _: str | None, time: Time | None, headers: Headers | None) -> bytes:
        """See :meth:`EventForm.prefix`."""
        self._check_plain(time, headers)
        return b""

    def many(self, events: Any, _: Any, times: Any, headers: Any) -> Any:
        """See :meth:`EventForm.many`."""
        self._check_plain(times, headers)
        if is_arrow(events) or isinstance(events, RecordColumn | RecordList):
            return events  # which another form has made, for a thread
        return encoded(events, self._codec)

    def _check_plain(self, times: object, headers: object) -> None:
        if times is not None or headers is not None:
            raise InvalidArgumentError(
                f"an event of {self._stream} has no time and no headers: "
                "that takes a stream that was created with records=True"
            )


class RecordForm:
    """Events are records: bytes, or what a serializer makes of values, in an envelope."""

    plain: type[object] = EncodedEvent

    def __init__(self, now_ms: Callable[[], int], codec: Codec | None = None) -> None:
        self._now_ms = now_ms
        self._codec = codec
        self._encode: Callable[[Any], bytes] = own_event if codec is None else codec.encode

    def one(self, event: Any, key: str | None, time: Time | None, headers: Headers | None) -> bytes:
        """See :meth:`EventForm.one`."""
        value = self._encode(event)
        return self.prefix(key, time, headers) + value

    def prefix(self, key: str | None, time: Time | None, headers: Headers | None) -> bytes:
        """See :meth:`EventForm.prefix`."""
        time_ms = self._now_ms() if time is None else time_ms_of(time)
        return prefix_of(key, time_ms, b"" if headers is None else encode_headers(headers))

    def many(self, events: Any, keys: Any, times: Any, headers: Any) -> Any:
        """See :meth:`EventForm.many`."""
        count = len(events)
        for what, given in (("keys", keys), ("times", times), ("headers", headers)):
            if not _is_one(given) and len(given) != count:
                raise InvalidArgumentError(f"{len(given)} {what} do not fit {count} events")
        if times is None or _is_one(times):
            times = self._now_ms() if times is None else time_ms_of(times)
        if headers is None or _is_one(headers):
            headers = encode_headers(headers)
        if is_arrow(events):
            return RecordColumn(events, keys, times, headers)
        return RecordList(encoded(events, self._codec), _prefixes(count, keys, times, headers))


def encoded(events: Sequence[Any], codec: Codec | None) -> Sequence[bytes]:
    """Return the bytes of each event. Raises InvalidArgumentError."""
    return own_events(events) if codec is None else list(map(codec.encode, events))


def _is_one(given: Any) -> bool:
    return given is None or isinstance(given, str | int | datetime | Mapping) or not hasattr(given, "__len__")


def _prefixes(count: int, keys: Any, times: Any, headers: Any) -> list[bytes]:
    """Return what is in front of the value of each record. What is the same for many is made once."""
    if is_arrow(keys):
        keys = keys.to_pylist()
    if not _is_one(keys) and not all(issubclass(kind, str) for kind in set(map(type, keys))):
        raise InvalidArgumentError("a routing key is no string")
    if isinstance(times, int) and isinstance(headers, bytes):
        if _is_one(keys):
            return [prefix_of(keys, times, headers)] * count
        prefixes = prefixes_of(dict.fromkeys(keys), times, headers)
        return list(map(prefixes.__getitem__, keys))
    return [
        prefix_of(key, time_ms, encoded_headers)
        for key, time_ms, encoded_headers in zip(
            [keys] * count if _is_one(keys) else keys,
            [times] * count if isinstance(times, int) else times_of_each(times),
            [headers] * count if isinstance(headers, bytes) else headers_of_each(headers),
            strict=True,
        )
    ]
