"""The values of the options: types, defaults, and one clear sentence for each mistake. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from headrace.errors import InvalidArgumentError, UnsupportedError
from headrace.model.names import check_user_name
from headrace.model.stream_cut import StreamCut
from headrace.runtime.times import parse_time_ms
from headrace.spark.connection_options import (
    ConnectionOptions,
    CreationOptions,
    parse_connection,
    parse_creation,
)
from headrace.spark.json_values import MODES
from headrace.spark.option_names import Door
from headrace.spark.option_reader import OptionReader
from headrace.spark.position_text import is_json, normal_text
from headrace.spark.range_groups import PartitionBounds
from headrace.spark.stream_choice import StreamChoice, choose_by_name, choose_by_rule

COLUMNS: Final = {
    "event": "binary",
    "scope": "string",
    "stream": "string",
    "segment_id": "bigint",
    "offset": "bigint",
}
"""Columns of a read in their default order, with their SQL types."""

MORE_COLUMNS: Final = {"key": "string", "timestamp": "timestamp", "headers": "map<string,binary>"}
"""Those that a read has if it names them: parts of records."""

ALL_COLUMNS: Final = {**COLUMNS, **MORE_COLUMNS}

METADATA_SCHEMAS: Final = {
    "streams": "scope_name string, stream_name string",
    "streaminfo": "head_stream_cut string, tail_stream_cut string",
    "segments": "segment_id bigint, key_begin double, key_end double, "
    "head bigint, tail bigint, sealed boolean",
}

_READ_BYTES_MAX: Final = 8 << 20
_PARTITIONS_MAX: Final = 100_000
_WORDS: Final = ("earliest", "latest", "unbounded")
_AT: Final = "at "
"""Begins a start or end that is a time; no cut as text begins so."""


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What a read needs to know. Picklable; sizes in bytes."""

    connection: ConnectionOptions
    creation: CreationOptions
    choice: StreamChoice
    start: str
    """``earliest``, ``latest``, ``at`` with a time (see :func:`time_of`), or the text of a cut."""
    end: str
    """``latest``, ``unbounded``, ``at`` with a time, or the text of a cut."""
    columns: tuple[str, ...]
    batch_bytes: int
    bytes_per_trigger: int
    """0: no limit."""
    events_per_trigger: int
    """0: no limit."""
    consumer: str
    """``scope/group`` under which a query is a subscriber; empty: it is none."""
    waits_for_start: bool
    """Whether a start in the future is the tail of now."""
    key_order: bool
    fail_on_data_loss: bool
    offset_wait_ms: int
    metadata: str
    partitions: PartitionBounds
    replaces_invalid: bool = False
    """Whether bytes that are no UTF-8 become replacement characters in an event that is text."""
    json_mode: str = ""
    """What becomes of malformed events; empty: events are no JSON."""
    json_schema: Any = None
    """Of Spark: the columns that are fields of JSON."""
    is_text: bool = False
    """Whether column event is a string."""
    names: tuple[str, ...] = ()
    """How the frame spells ``columns``; empty: as they are."""
    without_meaning: tuple[str, ...] = ()


def parse_source(options: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """Check the options of a read.

    Raises:
        InvalidArgumentError: names the option and what it may be.
        UnsupportedError: the option is documented and not built yet.
    """
    reader = OptionReader(options, Door.STREAM_READ if streaming else Door.BATCH_READ)
    metadata = reader.text("metadata").lower()
    if metadata and metadata not in METADATA_SCHEMAS:
        raise InvalidArgumentError(
            f"option metadata is one of Streams, StreamInfo, Segments, not {reader.text('metadata')!r}"
        )
    if metadata and streaming:
        raise InvalidArgumentError("option metadata works in batch reads only")
    if reader.text("direct_read", "auto").lower() == "true":
        raise UnsupportedError("option direct_read: chunks are read through the server only, so far")
    choice = _choice(reader, metadata)
    start = _edge(reader, choice, "start", "latest" if streaming else "earliest", _WORDS)
    end = _edge(reader, choice, "end", "unbounded" if streaming else "latest", ("latest", "unbounded"))
    times = time_of(start), time_of(end)
    if times[0] is not None and times[1] is not None and times[0] > times[1]:
        raise InvalidArgumentError("option start_timestamp is later than end_timestamp")
    if choice.only is None and any(
        edge not in _WORDS and time_of(edge) is None and not is_json(edge) for edge in (start, end)
    ):
        raise InvalidArgumentError(
            f"a cut is one of a single stream, and {choice} may be several: use times, or JSON"
        )
    batch_bytes = reader.number("batch_bytes", 1 << 20, low=1 << 12, high=1 << 28)
    return SourceOptions(
        connection=parse_connection(reader, min(batch_bytes, _READ_BYTES_MAX)),
        creation=parse_creation(reader),
        choice=choice,
        start="earliest" if start == "unbounded" else start,
        end=end,
        columns=_columns(reader.text("columns")),
        batch_bytes=batch_bytes,
        bytes_per_trigger=reader.limit("approx_bytes_per_trigger", high=1 << 50),
        events_per_trigger=reader.limit("max_events_per_trigger", high=1 << 50),
        consumer=_consumer(reader, choice),
        waits_for_start=reader.choice("start_timestamp_strategy", "error", ("error", "latest")) == "latest",
        key_order=reader.choice("key_order", "segment", ("segment", "none")) == "segment",
        fail_on_data_loss=reader.flag("fail_on_data_loss", default=True),
        offset_wait_ms=reader.number("offset_wait_ms", 100, low=0, high=60_000),
        metadata=metadata,
        replaces_invalid=reader.choice("invalid_utf8", "error", ("error", "replace")) == "replace",
        partitions=_partitions(reader, streaming=streaming),
        json_mode=_json_mode(reader),
        without_meaning=reader.without_meaning,
    )


def _json_mode(reader: OptionReader) -> str:
    if reader.text("serializer").lower() not in {"", "json"}:
        raise InvalidArgumentError(f"option serializer is json, not {reader.text('serializer')!r}")
    mode = reader.choice("mode", MODES[0], MODES)
    return mode if reader.text("serializer") else ""


def _consumer(reader: OptionReader, choice: StreamChoice) -> str:
    """Return the full name of the reader group that a query is; it is in the scope of what is read."""
    group = reader.text("consumer")
    if not group:
        return ""
    scope, _, name = group.rpartition("/")
    try:
        check_user_name(name, "consumer")
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"option consumer: {error}") from None
    return f"{scope or choice.scope or choice.names[0].partition('/')[0]}/{name}"


def _partitions(reader: OptionReader, *, streaming: bool) -> PartitionBounds:
    bounds = PartitionBounds(
        reader.limit("min_partitions", high=_PARTITIONS_MAX),
        reader.limit("max_partitions", high=_PARTITIONS_MAX),
    )
    if bounds.high and bounds.low > bounds.high:
        raise InvalidArgumentError("option min_partitions is larger than max_partitions")
    if bounds.low and streaming and reader.text("key_order").lower() != "none":
        raise InvalidArgumentError(
            "option min_partitions divides segments, whose events of one key may then be read in any order: "
            "set key_order=none if that is meant, or scale the stream for more partitions"
        )
    return bounds


def time_of(edge: str) -> int | None:
    """Return the time, in ms since 1970, of a start or end that is given as one; None if it is not."""
    return int(edge.removeprefix(_AT)) if edge.startswith(_AT) else None


def _choice(reader: OptionReader, metadata: str) -> StreamChoice:
    scope, stream = _place(reader)
    pattern, tag = reader.text("stream_pattern"), reader.text("stream_tag")
    if sum(map(bool, (stream, pattern, tag))) > 1:
        raise InvalidArgumentError("options stream, stream_pattern and stream_tag exclude each other")
    if metadata == "streams":
        return StreamChoice(scope or reader.required("scope"))
    if pattern or tag:
        choice = choose_by_rule(scope or reader.required("scope"), pattern=pattern, tag=tag)
    else:
        choice = choose_by_name(scope, stream or reader.required("stream"))
    if metadata and choice.only is None:
        raise InvalidArgumentError(f"option metadata={metadata} is about one stream, by its name")
    return choice


def _place(reader: OptionReader) -> tuple[str, str]:
    """Return scope and stream, which may be given as ``path``; empty if they are not given."""
    given = reader.text("scope"), reader.text("stream")
    path = reader.text("path").strip("/")
    if not path or (all(given) and "/" not in path):
        return given
    scope, _, stream = path.partition("/")
    if "/" in stream.partition(",")[0]:
        raise InvalidArgumentError(f"path {path!r} is scope/stream, with one slash")
    for name, value, said in (("scope", given[0], scope), ("stream", given[1], stream)):
        if value and value != said:
            raise InvalidArgumentError(f"option {name} is {value!r}, path {path!r} says {said!r}: give one")
    return scope, stream


def _edge(reader: OptionReader, choice: StreamChoice, side: str, default: str, words: tuple[str, ...]) -> str:
    name, time_name = f"{side}_stream_cut", f"{side}_timestamp"
    if reader.text(time_name):
        if reader.text(name):
            raise InvalidArgumentError(f"options {name} and {time_name} exclude each other")
        try:
            return f"{_AT}{parse_time_ms(reader.text(time_name))}"
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"option {time_name}: {error}") from None
    value = reader.text(name, default)
    if value.lower() in words:
        return value.lower()
    if is_json(value):
        return normal_text(name, value, choice.scope, choice.names)
    StreamCut.from_text(value)  # raises with the reason
    return value


def _columns(text: str) -> tuple[str, ...]:
    if not text.strip():
        return tuple(COLUMNS)
    names = tuple(name.strip().lower() for name in text.split(","))
    for name in names:
        if name not in ALL_COLUMNS:
            raise InvalidArgumentError(f"option columns: {name!r} is none of {', '.join(ALL_COLUMNS)}")
    if len(set(names)) != len(names):
        raise InvalidArgumentError("option columns names a column twice")
    return names


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """What a write needs to know. Picklable; times in milliseconds."""

    connection: ConnectionOptions
    creation: CreationOptions
    scope: str
    stream: str
    """Empty: rows say it."""
    exactly_once: bool
    lease_ms: int
    app_id: str
    version: int | None
    takeover: bool
    allow_complete: bool
    wait_readable: bool
    without_meaning: tuple[str, ...] = ()


def parse_sink(options: Mapping[str, str], *, streaming: bool) -> SinkOptions:
    """Check the options of a write. Raises as :func:`parse_source`."""
    reader = OptionReader(options, Door.STREAM_WRITE if streaming else Door.BATCH_WRITE)
    version = reader.text("txn_version")
    scope, stream = _place(reader)
    if reader.text("stream_pattern") or reader.text("stream_tag"):
        raise InvalidArgumentError("a sink is one stream: stream_pattern and stream_tag are for reads")
    target: tuple[str, str] | None = scope, ""
    if stream:
        target = choose_by_name(scope, stream).only
    if target is None:
        raise InvalidArgumentError(
            f"a sink is one stream, not {stream}: leave the option out, and say it in a column stream"
        )
    return SinkOptions(
        connection=parse_connection(reader, 1 << 20),
        creation=parse_creation(reader),
        scope=target[0],
        stream=target[1],
        exactly_once=reader.flag("exactly_once", default=True),
        lease_ms=reader.number("transaction_timeout_ms", 600_000, low=10_000, high=86_400_000),
        app_id=reader.text("txn_app_id"),
        version=reader.number("txn_version", 0, low=0, high=(1 << 63) - 1) if version else None,
        takeover=reader.choice("on_foreign_query", "error", ("error", "takeover")) == "takeover",
        allow_complete=reader.flag("allow_complete", default=False),
        wait_readable=reader.flag("read_after_write_consistency", default=True),
        without_meaning=reader.without_meaning,
    )
