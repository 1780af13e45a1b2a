"""What ``headrace stream create`` does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from headrace.cli.output import counted, finished, print_json, printable, progress
from headrace.cli.servers import Connection, scoped
from headrace.errors import InvalidArgumentError, NoSuchScopeError, StreamExistsError
from headrace.model.policies import RetentionKind, ScalingPolicy
from headrace.model.policy_words import difference_text
from headrace.model.retention_text import parse_retention

if TYPE_CHECKING:  # the connection imports the client when it is made
    from headrace.client.blocking import BlockingClient

_NO_OPTION: Final = "leaving the option out"


def create_stream(
    *,
    stream: str,
    segments: int | None,
    events_per_second: int | None,
    kib_per_second: int | None,
    scale_factor: int | None,
    retention: str | None,
    retain_time: str | None,
    retain_size: str | None,
    tags: Sequence[str],
    records: bool,
    create_scope: bool,
    if_absent: bool,
    connection: Connection,
    as_json: bool,
) -> None:
    """Create a stream with the policies that were given."""
    scope, stream = scoped(stream)
    factor = 2 if scale_factor is None else scale_factor
    count = 1 if segments is None else segments
    said: dict[str, Any] = {}
    if events_per_second is not None:
        said["scaling"] = ScalingPolicy.by_event_rate(events_per_second, factor, count)
    elif kib_per_second is not None:
        said["scaling"] = ScalingPolicy.by_data_rate(kib_per_second, factor, count)
    elif scale_factor is not None:
        raise InvalidArgumentError("--scale-factor needs --events-per-second or --kib-per-second")
    elif segments is not None:
        said["scaling"] = ScalingPolicy.fixed(count)
    if retention is not None:
        said["retention"] = parse_retention(retention)
    elif retain_time is not None:
        said["retention"] = parse_retention(retain_time, RetentionKind.TIME, words_for_none=_NO_OPTION)
    elif retain_size is not None:
        said["retention"] = parse_retention(retain_size, RetentionKind.SIZE, words_for_none=_NO_OPTION)
    if tags:
        said["tags"] = frozenset(tags)
    if records:
        said["records"] = True
    created = True
    with connection.connect() as client:
        try:
            _create(client, scope, stream, said, create_scope=create_scope)
        except StreamExistsError:
            if not if_absent:
                raise
            created = False
            _tell_difference(client, scope, stream, said)
    if as_json:
        print_json({"scope": scope, "stream": stream, "created": created})
    elif created:
        finished(f"stream {scope}/{stream} created with {counted(count, 'segment')}")
    else:
        finished(f"stream {scope}/{stream} exists already")


def _create(
    client: BlockingClient, scope: str, stream: str, said: Mapping[str, Any], *, create_scope: bool
) -> None:
    try:
        client.create_stream(scope, stream, **said, exist_ok=False)
    except NoSuchScopeError:
        if not create_scope:
            raise NoSuchScopeError(
                f"scope {scope!r} does not exist: --create-scope creates it as well"
            ) from None
        client.create_scope(scope)  # only now: a stream that cannot be leaves no scope behind
        client.create_stream(scope, stream, **said, exist_ok=False)


def _tell_difference(client: BlockingClient, scope: str, stream: str, said: Mapping[str, Any]) -> None:
    """Say on stderr in what a stream that exists is not what was wanted."""
    from headrace.client.stream_options import asked_of, configuration_of, parts_said  # as above

    present = client.stream_configuration(scope, stream)
    words = {name: said.get(name) for name in ("segments", "tags", "retention", "scaling", "records")}
    asked = asked_of(configuration_of(None, **words), parts_said(None, **words), present)
    difference = difference_text(f"{scope}/{stream}", asked, present)
    if difference:
        progress(printable(f"{difference}; 'headrace stream update' changes it"))
