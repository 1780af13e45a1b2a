"""Columns out of the bytes of many events, by Arrow's own readers: without an object per event."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from headrace.client.serializers import Codec, find_codec
from headrace.client.vectors import get_arrow
from headrace.errors import AnswerTooLargeError, EventNotDecodedError, InvalidArgumentError

JSON_BYTES_MAX: Final = (1 << 31) - 2
"""That Arrow parses at a time."""


def find_parser(serializer: str | None) -> Callable[[Any, str], Any]:
    """Return what makes columns of a table with the columns ``event``, ``segment_id`` and ``offset``, perhaps
    with those of records between them.

    Raises:
        InvalidArgumentError: columns are not made of this.
    """
    parser = {None: _as_bytes, "utf8": _as_text, "json": _as_json}.get(serializer)
    if parser is None:
        raise InvalidArgumentError(f"columns are made with serializer='json' or 'utf8', not {serializer!r}")
    return parser


def _as_bytes(table: Any, _: str) -> Any:
    return table


def _as_text(table: Any, stream: str) -> Any:
    pa = get_arrow()
    try:
        return table.set_column(0, "event", table["event"].cast(pa.string()))
    except pa.ArrowInvalid as error:
        raise _refused(table, stream, "utf8", error) from None


def _as_json(table: Any, stream: str) -> Any:
    """Return a column per member of the events, then the other columns where no member has their names."""
    pa = get_arrow()
    if not table.num_rows:
        return table.drop_columns(["event"])
    import pyarrow.json as pj

    size = table["event"].nbytes + table.num_rows
    if size > JSON_BYTES_MAX:
        raise AnswerTooLargeError(
            size, JSON_BYTES_MAX, f"{size} bytes of {stream} are too much to parse at once: read less"
        )
    events = table["event"].combine_chunks().cast(pa.large_binary())
    offsets = pa.array([0, table.num_rows], pa.int64())
    lines = pa.LargeListArray.from_arrays(offsets, events)
    text = pa.compute.binary_join(lines, pa.scalar(b"\n", pa.large_binary()))[0].as_buffer()
    try:
        found = pj.read_json(
            pa.BufferReader(text),
            read_options=pj.ReadOptions(block_size=len(text) + 1),
            parse_options=pj.ParseOptions(newlines_in_values=True),
        )
    except pa.ArrowInvalid as error:
        raise _refused(table, stream, "json", error) from None
    if found.num_rows != table.num_rows:
        raise _refused(table, stream, "json", "an event is not one object")
    for name in table.column_names[1:]:
        if name not in found.column_names:
            found = found.append_column(name, table[name])
    return found


def _refused(table: Any, stream: str, serializer: str, why: object) -> Exception:
    """Return the error for the first event that is none; look for it one by one."""
    codec = find_codec(serializer)
    assert isinstance(codec, Codec)
    for batch in table.select(["event", "segment_id", "offset"]).to_batches():
        for event, segment_id, offset in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            try:
                value = codec.decode(event, stream, segment_id, offset)
            except EventNotDecodedError as error:
                return error
            if serializer == "json" and not isinstance(value, dict):
                return EventNotDecodedError(
                    stream, segment_id, offset, f"no object of JSON but a {type(value).__name__}"
                )
    return InvalidArgumentError(f"the events of {stream} do not fit into columns: {why}")
