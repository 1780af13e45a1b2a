"""Records as they are handed out: events with a time, a key and headers, and batches of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from itertools import pairwise
from typing import Any, ClassVar

from headrace.client.framing.event_framing import payloads
from headrace.client.reader.event_batch import Decoder, Event, EventBatch
from headrace.client.records.envelope import (
    HEAD_BYTES,
    NO_KEY,
    Head,
    datetime_of,
    decode_headers,
    read_head,
)
from headrace.client.records.heads import Columns, DamagedHeadersError, find_records
from headrace.client.vectors import arrow_for_objects, get_arrow
from headrace.errors import EventNotRecordError
from headrace.limits import EVENT_HEADER_BYTES


class Record(Event):
    """An event of a stream with records: ``data`` is its value, without the envelope."""

    __slots__ = ("_headers", "_headers_data", "_key", "_stored_length", "time_ms")

    def __init__(self, stored: bytes, segment_id: int, offset: int, decoder: Decoder | None = None) -> None:
        """Take a record apart that is one: its batch has looked at it."""
        head = read_head(stored, 0, len(stored))
        assert isinstance(head, Head)
        key_end = HEAD_BYTES + head.key_bytes
        super().__init__(stored[head.value_begin :], segment_id, offset, decoder)
        self.time_ms: int = head.time_ms
        """Milliseconds since 1970."""
        self._key = None if head.key_length == NO_KEY else stored[HEAD_BYTES:key_end]
        self._headers_data = stored[key_end : head.value_begin]
        self._headers: Mapping[str, bytes] | None = None
        self._stored_length = len(stored)

    @property
    def time(self) -> datetime:
        """When it happened, in UTC: as its writer said, or when it was written."""
        return datetime_of(self.time_ms)

    @property
    def key(self) -> bytes | None:
        """The routing key it was written with, in UTF-8; None: it had none."""
        return self._key

    @property
    def headers(self) -> Mapping[str, bytes]:
        """Names with their values.

        Raises:
            EventNotRecordError: they are damaged; reading may go on.
        """
        if self._headers is None:
            try:
                self._headers = decode_headers(self._headers_data)
            except ValueError:
                where = "a stream" if self.decoder is None else self.decoder.stream
                raise _damaged(where, self.segment_id, self.offset) from None
        return self._headers

    @property
    def end_offset(self) -> int:
        """Where the next event of the segment starts."""
        return self.offset + EVENT_HEADER_BYTES + self._stored_length

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and self._parts() == other._parts()

    __hash__ = None  # type: ignore[assignment] # as that of any event

    def _parts(self) -> tuple[Any, ...]:
        return (self.data, self.segment_id, self.offset, self.time_ms, self._key, self._headers_data)

    def __repr__(self) -> str:
        try:
            headers = repr(self.headers)
        except EventNotRecordError:
            headers = "damaged"
        return (
            f"Record(data={self.data!r}, time={self.time.isoformat(timespec='milliseconds')!r}, "
            f"key={self._key!r}, headers={headers}, segment_id={self.segment_id}, offset={self.offset})"
        )


class RecordBatch(EventBatch):
    """Consecutive records of one segment. What gives their data gives values, without envelopes."""

    __slots__ = ("_heads",)

    event_type: ClassVar[type[Event]] = Record

    def __init__(self, batch: EventBatch, heads: Any) -> None:
        """Say of a batch that all of its events are records; ``heads`` as ``find_records`` has returned."""
        super().__init__(
            batch.scope, batch.stream, batch.segment_id, batch.buffer, batch.frames, batch.start_offset
        )
        self.decoder = batch.decoder
        self._heads = heads

    def first(self, count: int) -> RecordBatch:
        """See :meth:`EventBatch.first`."""
        return RecordBatch(super().first(count), None if self._heads is None else self._heads[:count])

    def behind(self, count: int) -> RecordBatch:
        """See :meth:`EventBatch.behind`."""
        return RecordBatch(super().behind(count), None if self._heads is None else self._heads[count:])

    def payloads(self) -> list[bytes]:
        """Return the values as ``bytes`` objects."""
        if arrow_for_objects() is not None:
            found: list[bytes] = self.to_arrow().to_pylist()
            return found
        return [record.data for record in self.events()]

    def stored_payloads(self) -> list[bytes]:
        """Return the records as they are stored."""
        return payloads(self.buffer, self.frames)

    def to_arrow(self) -> Any:
        """Return the values as a ``pyarrow.BinaryArray`` without an object per event."""
        return self._columns().values()

    def to_record_batch(self) -> Any:
        """Return ``event``, ``time``, ``key`` and ``headers`` as a ``pyarrow.RecordBatch``, without an object
        per event.

        Raises:
            EventNotRecordError: headers of an event are damaged.
        """
        columns = self._columns()
        try:
            headers = columns.headers()
        except DamagedHeadersError as error:
            offset = self.event_offsets()[error.index]
            raise _damaged(f"{self.scope}/{self.stream}", self.segment_id, offset) from None
        return get_arrow().record_batch(
            [columns.values(), columns.times(), columns.keys(), headers],
            names=["event", "time", "key", "headers"],
        )

    def _columns(self) -> Columns:
        return Columns(self.buffer, self.frames, self._heads)


def split_records(batch: EventBatch) -> list[EventBatch]:
    """Divide a batch of a stream with records into series that are :class:`RecordBatch`, and others."""
    heads, found = find_records(batch.buffer, batch.frames)
    if found is None:
        return [RecordBatch(batch, heads)]
    edges = [0, *(at + 1 for at, (one, next_one) in enumerate(pairwise(found)) if one != next_one)]
    parts: list[EventBatch] = []
    for begin, end in pairwise([*edges, len(found)]):
        part = batch.behind(begin).first(end - begin)
        parts.append(RecordBatch(part, None if heads is None else heads[begin:end]) if found[begin] else part)
    return parts


def not_a_record(batch: EventBatch) -> EventNotRecordError:
    """Return the error for the first event of a part of a batch that has no records."""
    begin, end = int(batch.frames[0]) + EVENT_HEADER_BYTES, int(batch.frames[1])
    why = read_head(batch.buffer, begin, end)
    assert isinstance(why, str)
    return EventNotRecordError(f"{batch.scope}/{batch.stream}", batch.segment_id, batch.start_offset, why)


def _damaged(stream: str, segment_id: int, offset: int) -> EventNotRecordError:
    return EventNotRecordError(stream, segment_id, offset, "its headers are damaged")
