"""JSON in events to columns of a schema, as Spark's JSON source makes them. Pure.

Arrow reads whole batches at once. What it refuses is read event by event: there Spark's rules are followed in
what is malformed, and what of it is still a row.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, tzinfo
from typing import Any, Final, cast

from headrace.errors import InvalidArgumentError

CORRUPT_NAMES: Final = ("_corrupt_record", "_corrupt")
"""A column of such a name, a string, has the text of an event that is malformed."""

MODES: Final = ("permissive", "dropmalformed", "failfast")

_INTEGERS: Final = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}
_ARROW_READS: Final = {*_INTEGERS, "boolean", "float", "double", "string"}

FIELD: Final = "(field)"
CORRUPT: Final = "(corrupt)"
"""Among columns: one that is a field, and the one with what is malformed; no column is called so."""

Converter = Callable[[Any], Any]


class MismatchError(ValueError):
    """A value is not of the type of its column."""


def check_types(fields: list[Any]) -> None:
    """Raises InvalidArgumentError: a column is of a type that JSON is not read as."""
    for each in fields:
        _converter(each.dataType, None, each.name)


@dataclass
class JsonColumns:
    """Columns of the fields of JSON objects."""

    schema: Any
    """Of Spark: the columns that are fields, without the corrupt one."""
    arrow_schema: Any
    """The same of Arrow."""
    zone: tzinfo | None
    """Of times that have none; None is that of this host."""

    def __post_init__(self) -> None:
        self._fields = [
            (each.name, _converter(each.dataType, self.zone, each.name)) for each in self.schema.fields
        ]
        self._arrow_reads = all(_is_plain(each.dataType) for each in self.schema.fields)

    def read(self, events: Any) -> tuple[list[Any], list[str | None]]:
        """Return the columns, and why each event is malformed; an empty list if none is.

        Args:
            events: a binary array without nulls.
        """
        columns = self._read_at_once(events) if self._arrow_reads else None
        return (columns, []) if columns is not None else self._read_each(events)

    def _read_at_once(self, events: Any) -> list[Any] | None:
        """Return the columns, or None if a single event is not as Arrow likes it."""
        import pyarrow as pa
        from pyarrow import compute, json

        pc, pj = cast("Any", compute), cast("Any", json)
        try:
            texts = events.cast(pa.string())  # checks UTF-8, which the reader does not
            if not pc.all(pc.starts_with(pc.ascii_ltrim_whitespace(texts), "{")).as_py():
                return None  # a blank line is no row, and "null" ends the process
            one = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
            data = pc.binary_join(one, "\n")[0].as_buffer()
            table = pj.read_json(
                pa.BufferReader(data),
                pj.ReadOptions(use_threads=False, block_size=max(1 << 20, data.size + 1)),
                pj.ParseOptions(explicit_schema=self.arrow_schema, unexpected_field_behavior="ignore"),
            )
        except pa.ArrowInvalid:
            return None
        if table.num_rows != len(events):  # a line break in an event, or two objects
            return None
        return [table.column(name).combine_chunks() for name in self.arrow_schema.names]

    def _read_each(self, events: Any) -> tuple[list[Any], list[str | None]]:
        import pyarrow as pa

        values: list[list[Any]] = [[] for _ in self._fields]
        reasons: list[str | None] = []
        for event in events.to_pylist():
            row, reason = self._row(event)
            reasons.append(reason)
            for column, value in zip(values, row, strict=True):
                column.append(value)
        fields = zip(values, self.arrow_schema, strict=True)
        arrays = [pa.array(column, field.type) for column, field in fields]
        return arrays, reasons if any(reasons) else []

    def _row(self, event: bytes) -> tuple[list[Any], str | None]:
        nothing: list[Any] = [None] * len(self._fields)
        try:
            found = json.loads(event)
        except (ValueError, RecursionError) as error:
            return nothing, str(error)
        if not isinstance(found, dict):
            return nothing, f"it is no object but {type(found).__name__}"
        reason = None
        for place, (name, convert) in enumerate(self._fields):
            value = found.get(name)
            if value is not None:
                try:
                    nothing[place] = convert(value)
                except MismatchError as error:
                    reason = reason or f"field {name}: {error}"
        return nothing, reason


@dataclass
class JsonFields:
    """How events in JSON are read."""

    columns: JsonColumns
    mode: str


def malformed_texts(events: Any, reasons: list[str | None]) -> Any:
    """Return the texts of events that are malformed, null for others."""
    import pyarrow as pa

    if not any(reasons):
        return pa.nulls(len(events), pa.string())
    pairs = zip(events.to_pylist(), reasons, strict=True)
    return pa.array([event.decode("utf-8", "replace") if why else None for event, why in pairs], pa.string())


def _is_plain(kind: Any) -> bool:
    name = kind.typeName()
    if name == "array":
        return _is_plain(kind.elementType)
    if name == "struct":
        return all(_is_plain(each.dataType) for each in kind.fields)
    return kind.simpleString() in _ARROW_READS


def _converter(kind: Any, zone: tzinfo | None, column: str) -> Converter:
    """Return what makes a value of a type of Spark of one of JSON, which is not null."""
    name = kind.simpleString()
    if name in _INTEGERS:
        return _integer(name, 1 << _INTEGERS[name])
    if name in {"float", "double"}:
        return _number
    if name == "boolean":
        return _only(bool, "no boolean")
    if name == "string":
        return _text
    if name == "date":
        return _parsed(date.fromisoformat, "no date")
    if name in {"timestamp", "timestamp_ntz"}:
        return _parsed(lambda text: _time(text, zone, naive=name == "timestamp_ntz"), "no time in ISO 8601")
    if kind.typeName() == "array":
        return _list(_converter(kind.elementType, zone, column))
    if kind.typeName() == "struct":
        return _object({each.name: _converter(each.dataType, zone, column) for each in kind.fields})
    if kind.typeName() == "map" and kind.keyType.simpleString() == "string":
        return _map(_converter(kind.valueType, zone, column))
    raise InvalidArgumentError(
        f"column {column} {name}: serializer=json reads strings, booleans, whole and floating numbers, "
        "dates, timestamps, arrays, structs and maps of strings to them; read others as strings and cast"
    )


def _integer(name: str, bound: int) -> Converter:
    def convert(value: Any) -> int:
        if type(value) is not int or not -bound <= value < bound:
            raise MismatchError(f"{value!r:.40} is no {name}")
        return value

    return convert


def _number(value: Any) -> float:
    if type(value) in {int, float}:
        try:
            return float(value)
        except OverflowError:
            pass
    if value in {"NaN", "Infinity", "-Infinity"}:
        return float(value)
    raise MismatchError(f"{value!r:.40} is no number")


def _only(wanted: type, words: str) -> Converter:
    def convert(value: Any) -> Any:
        if type(value) is not wanted:
            raise MismatchError(f"{value!r:.40} is {words}")
        return value

    return convert


def _text(value: Any) -> str:
    """Anything is a text: its JSON, if it is none."""
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _parsed(parse: Callable[[str], Any], words: str) -> Converter:
    def convert(value: Any) -> Any:
        try:
            return parse(value)
        except (TypeError, ValueError, AttributeError, OverflowError):
            raise MismatchError(f"{value!r:.40} is {words}") from None

    return convert


def _time(text: str, zone: tzinfo | None, *, naive: bool) -> datetime:
    time = datetime.fromisoformat(text)
    if naive:
        return time.replace(tzinfo=None)
    return time if time.tzinfo is not None else time.replace(tzinfo=zone) if zone else time.astimezone()


def _list(convert: Converter) -> Converter:
    def each(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise MismatchError(f"{value!r:.40} is no array")
        return [None if item is None else convert(item) for item in value]

    return each


def _object(fields: dict[str, Converter]) -> Converter:
    def each(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise MismatchError(f"{value!r:.40} is no object")
        return {
            name: None if value.get(name) is None else convert(value[name])
            for name, convert in fields.items()
        }

    return each


def _map(convert: Converter) -> Converter:
    def each(value: Any) -> list[tuple[str, Any]]:
        if not isinstance(value, dict):
            raise MismatchError(f"{value!r:.40} is no object")
        return [(name, None if item is None else convert(item)) for name, item in value.items()]

    return each
