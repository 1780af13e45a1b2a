"""What ``headrace stream create`` does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headrace.cli.output import counted, finished, print_json
from headrace.cli.servers import Connection, scoped
from headrace.errors import InvalidArgumentError, NoSuchScopeError, StreamExistsError
from headrace.model.policies import RetentionKind, RetentionPolicy, ScalingPolicy, StreamConfiguration
from headrace.model.retention_text import parse_retention

_NO_OPTION: Final = "leaving the option out"


def create_stream(
    *,
    stream: str,
    segments: int,
    events_per_second: int | None,
    kib_per_second: int | None,
    scale_factor: int | None,
    retention: str | None,
    retain_time: str | None,
    retain_size: str | None,
    tags: Sequence[str],
    create_scope: bool,
    if_absent: bool,
    connection: Connection,
    as_json: bool,
) -> None:
    """Create a stream with the policies that were given."""
    scope, stream = scoped(stream)
    factor = 2 if scale_factor is None else scale_factor
    if events_per_second is not None:
        scaling = ScalingPolicy.by_event_rate(events_per_second, factor, segments)
    elif kib_per_second is not None:
        scaling = ScalingPolicy.by_data_rate(kib_per_second, factor, segments)
    elif scale_factor is not None:
        raise InvalidArgumentError("--scale-factor needs --events-per-second or --kib-per-second")
    else:
        scaling = ScalingPolicy.fixed(segments)
    retained = RetentionPolicy.none()
    if retention is not None:
        retained = parse_retention(retention)
    elif retain_time is not None:
        retained = parse_retention(retain_time, RetentionKind.TIME, words_for_none=_NO_OPTION)
    elif retain_size is not None:
        retained = parse_retention(retain_size, RetentionKind.SIZE, words_for_none=_NO_OPTION)
    configuration = StreamConfiguration(scaling=scaling, retention=retained, tags=frozenset(tags))
    with connection.connect() as client:
        try:
            created = client.create_stream(scope, stream, configuration)
        except NoSuchScopeError:
            if not create_scope:
                raise NoSuchScopeError(
                    f"scope {scope!r} does not exist: --create-scope creates it as well"
                ) from None
            client.create_scope(scope)  # only now: a stream that cannot be leaves no scope behind
            created = client.create_stream(scope, stream, configuration)
    if not created and not if_absent:
        raise StreamExistsError(f"stream {scope}/{stream} exists already")
    if as_json:
        print_json({"scope": scope, "stream": stream, "created": created})
    elif created:
        finished(f"stream {scope}/{stream} created with {counted(segments, 'segment')}")
    else:
        finished(f"stream {scope}/{stream} exists already")
