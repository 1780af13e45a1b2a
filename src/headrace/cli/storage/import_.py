"""``headrace storage import``: streams out of an export into a running server, by ordinary writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from headrace.cli.output import counted, print_json, print_line
from headrace.cli.progress import Progress
from headrace.cli.servers import Connection, scoped
from headrace.cli.storage.export_places import open_place
from headrace.cli.storage.imported_segments import FoundStream, ImportedSegments
from headrace.errors import InvalidArgumentError
from headrace.model.key_space import key_position
from headrace.model.policies import ScalingPolicy, StreamConfiguration

if TYPE_CHECKING:  # the client is imported when a server is asked: help is fast
    from headrace.client.blocking import BlockingClient

_EVENTS_AT_ONCE: Final = 1000
"""Events of one call of the writer, after which progress is shown: one call per event would take longer."""


def import_streams(
    *,
    names: Sequence[str],
    source: str,
    into: str | None,
    as_bytes: bool,
    connection: Connection,
    as_json: bool,
) -> None:
    """Import the streams that the caller named, or all; each must be new."""
    with open_place(source) as place:
        segments = ImportedSegments(place)
        found = segments.streams()
        if not found:
            raise InvalidArgumentError(f"there is no stream in {source}")
        wanted = names or sorted(found)
        for name in wanted:
            if name not in found:
                raise InvalidArgumentError(f"{source} has no stream {name!r}: {', '.join(sorted(found))}")
        if into is not None and len(wanted) != 1:
            raise InvalidArgumentError("--as is for one stream")
        with connection.connect() as client:
            for name in wanted:
                _import(client, segments, found[name], into or name, as_bytes=as_bytes, as_json=as_json)


def _import(
    client: BlockingClient,
    segments: ImportedSegments,
    source: FoundStream,
    into: str,
    *,
    as_bytes: bool,
    as_json: bool,
) -> None:
    scope, stream = scoped(into)
    if as_bytes and len(source.segments) != 1:
        raise InvalidArgumentError(f"{into} has {len(source.segments)} segments: a stream of bytes has one")
    expected = 0
    for _, _, name in source.segments:  # whatever is wrong there, nothing is changed here
        expected += sum(map(len, segments.pieces(name) if as_bytes else segments.events(name)))
    count = len(source.segments) if source.never_scaled else 1
    client.create_scope(scope)
    if not client.create_stream(scope, stream, StreamConfiguration(scaling=ScalingPolicy.fixed(count))):
        raise InvalidArgumentError(f"the stream {into} exists: choose another name with --as")
    total = 0
    with Progress(f"importing {into}", "B" if as_bytes else "events", expected, quiet=as_json) as progress:
        for written in (
            _write_bytes(client, segments, source, into)
            if as_bytes
            else _write_events(client, segments, source, into, count)
        ):
            total += written
            progress.show(total)
    newest = max((epoch for epoch, _, _ in source.segments), default=0)
    sealed = all(segments.is_sealed(name) for epoch, _, name in source.segments if epoch == newest)
    if sealed:
        client.seal_stream(scope, stream)
    if as_json:
        what = "bytes" if as_bytes else "events"
        print_json({"stream": into, what: total, "segments": count, "sealed": sealed})
    else:
        amount = counted(total, "byte" if as_bytes else "event")
        print_line(f"{into}: {amount} in {counted(count, 'segment')}{', sealed' if sealed else ''}")


def _write_events(
    client: BlockingClient, segments: ImportedSegments, source: FoundStream, into: str, count: int
) -> Iterator[int]:
    """Write all events, those of each segment in order; yield how many, now and then."""
    scope, stream = scoped(into)
    with client.event_writer(scope, stream) as writer:
        for _, number, name in source.segments:
            key = key_of(number if count > 1 else 0, count)
            for events in segments.events(name):
                for begin in range(0, len(events), _EVENTS_AT_ONCE):
                    some = events[begin : begin + _EVENTS_AT_ONCE]
                    writer.write_many(some, [key] * len(some))
                    yield len(some)
            writer.flush()  # what follows may be of a successor


def _write_bytes(
    client: BlockingClient, segments: ImportedSegments, source: FoundStream, into: str
) -> Iterator[int]:
    """Write all bytes; yield how many, now and then."""
    with client.byte_writer(*scoped(into)) as writer:
        for piece in segments.pieces(source.segments[0][2]):
            writer.write(piece)
            yield len(piece)


def key_of(segment: int, count: int) -> str:
    """Return a routing key of a segment of a new stream with ``count`` equal segments."""
    tried = 0
    while True:
        key = f"import-{tried}"
        if segment <= key_position(key) * count < segment + 1:
            return key
        tried += 1
