"""Options that sources and sinks share: how to reach the system, and what may be created there. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.errors import InvalidArgumentError
from headrace.model.policies import RetentionKind, RetentionPolicy
from headrace.spark.option_reader import OptionReader


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


def parse_connection(reader: OptionReader, read_bytes: int) -> ConnectionOptions:
    """Check who asks whom. Raises InvalidArgumentError."""
    user = reader.text("user")
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
        authorities_file=reader.text("tls_ca"),
        cert_file=reader.text("tls_cert_file"),
        key_file=reader.text("tls_key_file"),
        check_host=reader.flag("tls_verify", default=True),
        call_timeout_ms=reader.number("rpc_timeout_ms", 30_000, low=100, high=3_600_000),
        attempts=reader.number("rpc_retries", 10, low=1, high=1000),
        read_bytes=read_bytes,
    )


@dataclass(frozen=True, slots=True)
class CreationOptions:
    """What a stream that does not exist becomes. Rates per second; 0 is none."""

    scope: bool
    stream: bool
    segments: int
    scale_factor: int
    target_bytes: int
    target_events: int
    retention: RetentionPolicy


def parse_creation(reader: OptionReader) -> CreationOptions:
    """Check what may be created. Raises InvalidArgumentError."""
    for pair in (
        ("default_segment_target_rate_bytes_per_sec", "default_segment_target_rate_events_per_sec"),
        ("default_retention_duration_milliseconds", "default_retention_size_bytes"),
    ):
        if all(reader.text(name) for name in pair):
            raise InvalidArgumentError(f"options {pair[0]} and {pair[1]} exclude each other")
    by_time = reader.retention("default_retention_duration_milliseconds", RetentionKind.TIME)
    by_size = reader.retention("default_retention_size_bytes", RetentionKind.SIZE)
    return CreationOptions(
        scope=reader.flag("allow_create_scope", default=False),
        stream=reader.flag("allow_create_stream", default=False),
        segments=reader.number("default_num_segments", 1, low=1, high=10_000),
        scale_factor=reader.number("default_scale_factor", 2, low=1, high=1000),
        target_bytes=reader.limit("default_segment_target_rate_bytes_per_sec", high=1 << 40),
        target_events=reader.limit("default_segment_target_rate_events_per_sec", high=1 << 31),
        retention=by_time if by_time.kind is RetentionKind.TIME else by_size,
    )
