"""The values of the options: types, defaults, and one clear sentence for each mistake. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from headrace.errors import InvalidArgumentError, UnsupportedError
from headrace.model.stream_cut import StreamCut
from headrace.runtime.times import parse_time_ms
from headrace.spark.option_names import NOT_BUILT, Door, names_without_meaning

COLUMNS: Final = {
    "event": "binary",
    "scope": "string",
    "stream": "string",
    "segment_id": "bigint",
    "offset": "bigint",
}
"""Columns of a read in their default order, with their SQL types."""

METADATA_SCHEMAS: Final = {
    "streams": "scope_name string, stream_name string",
    "streaminfo": "head_stream_cut string, tail_stream_cut string",
    "segments": "segment_id bigint, key_begin double, key_end double, "
    "head bigint, tail bigint, sealed boolean",
}

_READ_BYTES_MAX: Final = 8 << 20
_AT: Final = "at "
"""Begins a start or end that is a time; no cut as text begins so."""


class OptionReader:
    """Typed access to the options of one source or sink. Each method names the option in its error."""

    def __init__(self, options: Mapping[str, str], door: Door) -> None:
        self._values = {str(key).lower(): str(value) for key, value in options.items()}
        for name, reason in NOT_BUILT.items():
            if name in self._values:
                raise UnsupportedError(f"option {name}: {reason}")
        self.without_meaning = tuple(names_without_meaning(self._values, door))
        """Names that have no effect here."""

    def text(self, name: str, default: str = "") -> str:
        return self._values.get(name, default)

    def required(self, name: str) -> str:
        value = self._values.get(name, "")
        if not value:
            raise InvalidArgumentError(
                f"option {name} is required (catalog tables lose options in Spark 4.3: use read)"
            )
        return value

    def flag(self, name: str, *, default: bool) -> bool:
        value = self._values.get(name)
        if value is None:
            return default
        if value.lower() not in {"true", "false"}:
            raise InvalidArgumentError(f"option {name} is true or false, not {value!r}")
        return value.lower() == "true"

    def number(self, name: str, default: int, *, low: int, high: int) -> int:
        value = self._values.get(name)
        if value is None:
            return default
        try:
            number = int(value)
        except ValueError:
            raise InvalidArgumentError(f"option {name} is a whole number, not {value!r}") from None
        if not low <= number <= high:
            raise InvalidArgumentError(f"option {name} is {number}, allowed are {low} to {high}")
        return number

    def choice(self, name: str, default: str, allowed: tuple[str, ...]) -> str:
        value = self._values.get(name, default).lower()
        if value not in allowed:
            raise InvalidArgumentError(f"option {name} is one of {', '.join(allowed)}, not {value!r}")
        return value


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """How to reach the system. Picklable and hashable; files are read where they are needed."""

    controller: str
    token: str = field(default="", repr=False)
    token_file: str = ""
    user: str = ""
    password: str = field(default="", repr=False)
    password_file: str = ""
    authorities_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    check_host: bool = True
    call_timeout_ms: int = 30_000
    attempts: int = 10
    read_bytes: int = 1 << 20


def _parse_connection(reader: OptionReader, read_bytes: int) -> ConnectionOptions:
    user = reader.text("user", reader.text("username"))
    if sum(map(bool, (reader.text("auth_token"), reader.text("auth_token_file"), user))) > 1:
        raise InvalidArgumentError("options auth_token, auth_token_file and user exclude each other")
    if bool(user) != bool(reader.text("password") or reader.text("password_file")):
        raise InvalidArgumentError("option user goes together with password or password_file")
    if reader.text("tls_key_file") and not reader.text("tls_cert_file"):
        raise InvalidArgumentError("option tls_key_file is the key of tls_cert_file: give both")
    return ConnectionOptions(
        controller=reader.text("controller", "tcp://localhost:9090"),
        token=reader.text("auth_token"),
        token_file=reader.text("auth_token_file"),
        user=user,
        password=reader.text("password"),
        password_file=reader.text("password_file"),
        authorities_file=reader.text("tls_ca", reader.text("tls_ca_file")),
        cert_file=reader.text("tls_cert_file"),
        key_file=reader.text("tls_key_file"),
        check_host=reader.flag("tls_verify", default=True),
        call_timeout_ms=reader.number("rpc_timeout_ms", 30_000, low=100, high=3_600_000),
        attempts=reader.number("rpc_retries", 10, low=1, high=1000),
        read_bytes=read_bytes,
    )


@dataclass(frozen=True, slots=True)
class CreationOptions:
    """What a stream that does not exist becomes. Rates per second, retention in ms or bytes; 0 is none."""

    scope: bool
    stream: bool
    segments: int
    scale_factor: int
    target_bytes: int
    target_events: int
    retention_ms: int
    retention_bytes: int


def _parse_creation(reader: OptionReader) -> CreationOptions:
    for pair in (
        ("default_segment_target_rate_bytes_per_sec", "default_segment_target_rate_events_per_sec"),
        ("default_retention_duration_milliseconds", "default_retention_size_bytes"),
    ):
        if all(reader.text(name) for name in pair):
            raise InvalidArgumentError(f"options {pair[0]} and {pair[1]} exclude each other")
    return CreationOptions(
        scope=reader.flag("allow_create_scope", default=True),
        stream=reader.flag("allow_create_stream", default=True),
        segments=reader.number("default_num_segments", 1, low=1, high=10_000),
        scale_factor=reader.number("default_scale_factor", 2, low=1, high=1000),
        target_bytes=reader.number("default_segment_target_rate_bytes_per_sec", 0, low=0, high=1 << 40),
        target_events=reader.number("default_segment_target_rate_events_per_sec", 0, low=0, high=1 << 31),
        retention_ms=reader.number("default_retention_duration_milliseconds", 0, low=0, high=1 << 50),
        retention_bytes=reader.number("default_retention_size_bytes", 0, low=0, high=1 << 60),
    )


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What a read needs to know. Picklable; sizes in bytes."""

    connection: ConnectionOptions
    creation: CreationOptions
    scope: str
    stream: str
    start: str
    """``earliest``, ``latest``, ``at`` with a time (see :func:`time_of`), or the text of a cut."""
    end: str
    """``latest``, ``unbounded``, ``at`` with a time, or the text of a cut."""
    columns: tuple[str, ...]
    batch_bytes: int
    bytes_per_trigger: int
    """0: no limit."""
    key_order: bool
    fail_on_data_loss: bool
    offset_wait_ms: int
    metadata: str
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
    start = _edge(reader, "start", "latest" if streaming else "earliest", ("earliest", "latest", "unbounded"))
    end = _edge(reader, "end", "unbounded" if streaming else "latest", ("latest", "unbounded"))
    times = time_of(start), time_of(end)
    if times[0] is not None and times[1] is not None and times[0] > times[1]:
        raise InvalidArgumentError("option start_timestamp is later than end_timestamp")
    batch_bytes = reader.number("batch_bytes", 1 << 20, low=1 << 12, high=1 << 28)
    return SourceOptions(
        connection=_parse_connection(reader, min(batch_bytes, _READ_BYTES_MAX)),
        creation=_parse_creation(reader),
        scope=reader.required("scope"),
        stream=reader.text("stream") if metadata == "streams" else reader.required("stream"),
        start="earliest" if start == "unbounded" else start,
        end=end,
        columns=_columns(reader.text("columns")),
        batch_bytes=batch_bytes,
        bytes_per_trigger=reader.number("approx_bytes_per_trigger", 0, low=0, high=1 << 50),
        key_order=reader.choice("key_order", "segment", ("segment", "none")) == "segment",
        fail_on_data_loss=reader.flag("fail_on_data_loss", default=True),
        offset_wait_ms=reader.number("offset_wait_ms", 100, low=0, high=60_000),
        metadata=metadata,
        without_meaning=reader.without_meaning,
    )


def time_of(edge: str) -> int | None:
    """Return the time, in ms since 1970, of a start or end that is given as one; None if it is not."""
    return int(edge.removeprefix(_AT)) if edge.startswith(_AT) else None


def _edge(reader: OptionReader, side: str, default: str, words: tuple[str, ...]) -> str:
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
    StreamCut.from_text(value)  # raises with the reason
    return value


def _columns(text: str) -> tuple[str, ...]:
    if not text.strip():
        return tuple(COLUMNS)
    names = tuple(name.strip().lower() for name in text.split(","))
    for name in names:
        if name not in COLUMNS:
            raise InvalidArgumentError(f"option columns: {name!r} is none of {', '.join(COLUMNS)}")
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
    return SinkOptions(
        connection=_parse_connection(reader, 1 << 20),
        creation=_parse_creation(reader),
        scope=reader.required("scope"),
        stream=reader.required("stream"),
        exactly_once=reader.flag("exactly_once", default=True),
        lease_ms=reader.number("transaction_timeout_ms", 600_000, low=10_000, high=86_400_000),
        app_id=reader.text("txn_app_id"),
        version=reader.number("txn_version", 0, low=0, high=(1 << 63) - 1) if version else None,
        takeover=reader.choice("on_foreign_query", "error", ("error", "takeover")) == "takeover",
        allow_complete=reader.flag("allow_complete", default=False),
        wait_readable=reader.flag("read_after_write_consistency", default=True),
        without_meaning=reader.without_meaning,
    )
