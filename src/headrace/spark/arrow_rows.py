"""Bytes of a segment to Arrow record batches of the columns that were asked for, without an object per event.

Spark cannot prune columns of a Python source, so only the wanted ones are built.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from headrace.client.framing.event_framing import find_frames, payload_column
from headrace.client.records.envelope import read_head
from headrace.client.records.heads import Columns, DamagedHeadersError, find_records
from headrace.errors import DataCorruptionError, InvalidArgumentError
from headrace.limits import EVENT_HEADER_BYTES
from headrace.spark.event_times import Mark, times_of
from headrace.spark.json_values import CORRUPT, FIELD, JsonFields, malformed_texts
from headrace.spark.options import MORE_COLUMNS


def record_batches(
    blocks: Iterable[memoryview],
    *,
    scope: str,
    stream: str,
    segment_id: int,
    offset: int,
    end: int,
    columns: Sequence[str],
    names: Sequence[str],
    batch_bytes: int,
    text: str = "",
    fields: JsonFields | None = None,
    has_records: bool = False,
    marks: Sequence[Mark] = (),
) -> Iterator[Any]:
    """Yield record batches of about ``batch_bytes``.

    Args:
        blocks: contiguous bytes of the segment that begin at ``offset``, which is where an event starts.
        scope: of the stream.
        stream: its name.
        segment_id: the segment.
        offset: where in the segment the bytes begin.
        end: where they have to end.
        columns: what to build, in order.
        names: how the batches call these columns.
        batch_bytes: blocks are collected until they are as large; an event is never divided.
        text: events are strings, and bytes that are no UTF-8 are an error (``strict``) or become U+FFFD
            (``replace``); empty: events are bytes.
        fields: what makes columns of events in JSON.
        has_records: events are the values of records.
        marks: of plain events, about when they were written.

    Raises:
        DataCorruptionError: the bytes are no events, or no records and have to be, or they end inside one.
        InvalidArgumentError: an event is no text, or no JSON of its schema, and has to be.
    """
    build = _Columns(scope, stream, segment_id, columns, names, text, fields, marks, has_records=has_records)
    pieces: list[memoryview] = []
    size = 0
    for block in blocks:
        pieces.append(block)
        size += len(block)
        if size < batch_bytes:
            continue
        data = pieces[0] if len(pieces) == 1 else memoryview(b"".join(pieces))
        frames = find_frames(data)
        whole = int(frames[-1])
        if len(frames) > 1:
            yield build(data, frames, offset)
        offset += whole
        pieces = [data[whole:]]
        size = len(data) - whole
    if size:
        data = memoryview(b"".join(pieces))
        frames = find_frames(data)
        if len(frames) > 1:
            yield build(data, frames, offset)
        offset += int(frames[-1])
    if offset != end:
        raise DataCorruptionError(
            f"{scope}/{stream} segment {segment_id}: its events end at {offset}, the range at {end}",
            offset=offset,
        )


class _Columns:
    """Makes the record batches of one segment."""

    def __init__(
        self,
        scope: str,
        stream: str,
        segment_id: int,
        columns: Sequence[str],
        names: Sequence[str],
        text: str,
        fields: JsonFields | None,
        marks: Sequence[Mark],
        *,
        has_records: bool,
    ) -> None:
        self._place = f"{scope}/{stream} segment {segment_id}"
        self._constants: dict[str, Any] = {"scope": scope, "stream": stream, "segment_id": segment_id}
        self._columns = list(columns)
        self._names = list(names)
        self._text = text
        self._fields = fields
        self._marks = marks
        self._has_records = has_records

    def __call__(self, data: memoryview, frames: Any, offset: int) -> Any:
        import numpy as np
        import pyarrow as pa

        count = len(frames) - 1
        arrays = []
        records = self._records(data, frames, offset) if self._has_records else None
        events = payload_column(data, frames) if records is None else records.values()
        found, reasons = ([], []) if self._fields is None else self._fields.columns.read(events)
        if any(reasons) and self._fields is not None and self._fields.mode == "failfast":
            place = next(place for place, reason in enumerate(reasons) if reason)
            raise InvalidArgumentError(
                f"{self._place}: the event at offset {offset + int(frames[place])} is malformed: "
                f"{reasons[place]}"
            )
        fields = iter(found)
        for name in self._columns:
            if name == "event":
                arrays.append(self._decode(events, frames, offset) if self._text else events)
            elif name in MORE_COLUMNS:
                arrays.append(self._part(name, records, frames, offset))
            elif name == FIELD:
                arrays.append(next(fields))
            elif name == CORRUPT:
                arrays.append(malformed_texts(events, reasons))
            elif name == "offset":
                offsets: Any = np.asarray(frames[:-1], np.int64) + offset
                arrays.append(pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(offsets)]))
            else:
                arrays.append(pa.repeat(self._constants[name], count))
        batch = pa.RecordBatch.from_arrays(arrays, names=self._names)
        if any(reasons) and self._fields is not None and self._fields.mode == "dropmalformed":
            return batch.filter(pa.array([reason is None for reason in reasons]))
        return batch

    def _records(self, data: memoryview, frames: Any, offset: int) -> Columns:
        heads, found = find_records(data, frames)
        if found is not None:
            place = found.index(False)
            begin, end = int(frames[place]), int(frames[place + 1])
            why = str(read_head(data, begin + EVENT_HEADER_BYTES, end))
            raise self._no_record(offset + begin, why)
        return Columns(data, frames, heads)

    def _no_record(self, offset: int, why: str) -> DataCorruptionError:
        return DataCorruptionError(
            f"{self._place}: the event at offset {offset} is no record: {why}. Another client wrote it: read "
            "up to it, and from behind it (end_stream_cut and start_stream_cut)",
            offset=offset,
        )

    def _part(self, name: str, records: Columns | None, frames: Any, offset: int) -> Any:
        """Return the keys, times or headers; of plain events times only, and about."""
        import numpy as np
        import pyarrow as pa

        count = len(frames) - 1
        if name == "timestamp":
            if records is None:
                return times_of(self._marks, np.asarray(frames[:-1], np.int64) + offset)
            return records.times().cast(pa.timestamp("us", "UTC"))
        if records is None:
            return pa.nulls(count, pa.string() if name == "key" else pa.map_(pa.string(), pa.binary()))
        if name == "headers":
            try:
                return records.headers()
            except DamagedHeadersError as error:
                raise self._no_record(offset + int(frames[error.index]), str(error)) from None
        keys = records.keys()
        try:
            return keys.cast(pa.string())
        except pa.ArrowInvalid:  # of another client
            texts = [None if key is None else key.decode("utf-8", "replace") for key in keys.to_pylist()]
            return pa.array(texts, pa.string())

    def _decode(self, events: Any, frames: Any, offset: int) -> Any:
        """Return events as strings: checked by Arrow at once, and one by one only if some are no UTF-8."""
        import pyarrow as pa

        try:
            return events.cast(pa.string())
        except pa.ArrowInvalid:
            texts = []
        for index, event in enumerate(events.to_pylist()):
            try:
                texts.append(event.decode("utf-8", self._text))
            except UnicodeDecodeError as error:
                raise InvalidArgumentError(
                    f"{self._place}: the event at offset {offset + int(frames[index])} is no UTF-8 "
                    f"({error.reason} at byte {error.start}): read it as binary, or set invalid_utf8=replace"
                ) from None
        return pa.array(texts, pa.string())
