"""Columns out of the bytes of many events, by Arrow's own readers: without an object per event."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, Literal

from headrace.client.serializers import Codec, find_codec
from headrace.client.vectors import get_arrow
from headrace.errors import AnswerTooLargeError, EventNotDecodedError, InvalidArgumentError

JSON_BYTES_MAX: Final = (1 << 31) - 2
"""That Arrow parses at a time."""


OnMisfit = Literal["raise", "skip", "null"]
"""What follows from an event that the serializer does not take: an error, no row, or a row without values."""

Parse = Callable[[Any, str], Any]
"""Makes columns of a table with the columns ``event``, ``segment_id`` and ``offset``, perhaps with those of
records between them, of the stream that is named."""


def find_parser(serializer: str | None, on_misfit: OnMisfit = "raise", schema: Any = None) -> Parse:
    """Return what makes the columns.

    Args:
        serializer: ``"json"``, ``"utf8"`` or None.
        on_misfit: what follows from an event that it does not take.
        schema: the members of JSON, a ``pyarrow.Schema``; None: those that there are, of the types they have.

    Raises:
        InvalidArgumentError: columns are not made of this.
    """
    known: dict[str | None, Callable[..., Any]] = {None: _as_bytes, "utf8": _as_text, "json": _as_json}
    parser = known.get(serializer)
    if parser is None:
        raise InvalidArgumentError(f"columns are made with serializer='json' or 'utf8', not {serializer!r}")
    if on_misfit not in ("raise", "skip", "null"):
        raise InvalidArgumentError(f"on_error is 'raise', 'skip' or 'null', not {on_misfit!r:.100}")
    if schema is not None and (serializer != "json" or not isinstance(schema, get_arrow().Schema)):
        raise InvalidArgumentError("a schema is a pyarrow.Schema of members, for serializer='json'")
    return partial(parser, on_misfit=on_misfit, schema=schema)


def _as_bytes(table: Any, _: str, **__: Any) -> Any:
    return table


def _as_text(table: Any, stream: str, *, on_misfit: OnMisfit, schema: Any) -> Any:
    pa = get_arrow()
    try:
        return table.set_column(0, "event", table["event"].cast(pa.string()))
    except pa.ArrowInvalid as error:
        misfits = _misfits(table, stream, "utf8")
        if on_misfit == "raise" or not any(misfits):
            raise _refused(misfits, stream, error) from None
    return _as_text(_without(table, misfits, on_misfit, None), stream, on_misfit="raise", schema=schema)


def _as_json(table: Any, stream: str, *, on_misfit: OnMisfit, schema: Any) -> Any:
    """Return a column per member of the events, then the other columns where no member has their names."""
    pa = get_arrow()
    try:
        found = _members(table, stream, schema)
    except pa.ArrowInvalid as error:
        misfits = _misfits(table, stream, "json")
        if schema is not None and not any(misfits):
            misfits = _odd_types(table, stream, schema)
        if on_misfit == "raise" or not any(misfits):
            raise _refused(misfits, stream, error) from None
        rest = _without(table, misfits, on_misfit, b"{}")
        return _as_json(rest, stream, on_misfit=on_misfit, schema=schema)
    for name in table.column_names[1:]:
        if name not in found.column_names:
            found = found.append_column(name, table[name])
    return found


def _members(table: Any, stream: str, schema: Any) -> Any:
    """Return a column per member. Raises ArrowInvalid: an event is not one object, or types differ."""
    pa = get_arrow()
    if not table.num_rows:
        return pa.table({}) if schema is None else schema.empty_table()
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
    options: dict[str, Any] = {"newlines_in_values": True}
    if schema is not None:
        options |= {"explicit_schema": schema, "unexpected_field_behavior": "ignore"}
    found = pj.read_json(
        pa.BufferReader(text),
        read_options=pj.ReadOptions(block_size=len(text) + 1),
        parse_options=pj.ParseOptions(**options),
    )
    if found.num_rows != table.num_rows:
        raise pa.ArrowInvalid("an event is not one object")
    return found


def _without(table: Any, misfits: list[EventNotDecodedError | None], how: OnMisfit, instead: Any) -> Any:
    """Return a table without the events that do not fit, or with something instead of them."""
    pa = get_arrow()
    fits = pa.array([each is None for each in misfits])
    if how == "skip":
        return table.filter(fits)
    events = pa.compute.if_else(fits, table["event"], pa.scalar(instead, pa.binary()))
    return table.set_column(0, "event", events)


def _misfits(table: Any, stream: str, serializer: str) -> list[EventNotDecodedError | None]:
    """Return of each event why it is none; look at them one by one."""
    codec = find_codec(serializer)
    assert isinstance(codec, Codec)
    found: list[EventNotDecodedError | None] = []
    for event, segment_id, offset in _events(table):
        error = None
        try:
            value = codec.decode(event, stream, segment_id, offset)
            if serializer == "json" and not isinstance(value, dict):
                why = f"no object of JSON but a {type(value).__name__}"
                error = EventNotDecodedError(stream, segment_id, offset, why)
        except EventNotDecodedError as failure:
            error = failure
        found.append(error)
    return found


def _odd_types(table: Any, stream: str, schema: Any) -> list[EventNotDecodedError | None]:
    """Return of each event, all of which are objects, why it is not what a schema says: by halves."""
    pa = get_arrow()
    try:
        _members(table, stream, schema)
    except pa.ArrowInvalid as error:
        if (count := table.num_rows) > 1:
            halves = table.slice(0, count // 2), table.slice(count // 2)
            return [each for half in halves for each in _odd_types(half, stream, schema)]
        _, segment_id, offset = next(_events(table))
        return [EventNotDecodedError(stream, segment_id, offset, f"not what the schema says: {error}")]
    return [None] * table.num_rows


def _events(table: Any) -> Iterator[tuple[bytes, int, int]]:
    for batch in table.select(["event", "segment_id", "offset"]).to_batches():
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _refused(misfits: list[EventNotDecodedError | None], stream: str, why: object) -> Exception:
    """Return the error for the first event that does not fit."""
    first = next((each for each in misfits if each is not None), None)
    return first or InvalidArgumentError(f"the events of {stream} do not fit into columns: {why}")
