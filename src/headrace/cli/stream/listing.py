"""What ``headrace stream list`` does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.cli.output import print_json, print_line, printable
from headrace.cli.servers import Connection
from headrace.cli.stream.sizes import StreamSize, sizes_of
from headrace.cli.streamed_columns import StreamedColumns

if TYPE_CHECKING:  # the connection imports the client when it is made
    from headrace.client.blocking import BlockingClient


def list_streams(
    *,
    scope: str | None,
    tag: str | None,
    internal: bool,
    names: bool,
    connection: Connection,
    as_json: bool,
) -> None:
    """Print the streams of a scope, or of all; only their ``names``, if so asked."""
    with connection.connect() as client:
        found = names_of(client, scope, tag, internal=internal)
        if names and as_json:
            print_json(["/".join(each) for each in found])
        elif names:
            for each in found:
                print_line(printable("/".join(each)))
        elif as_json:
            print_json([_document(each) for each in sizes_of(client, found)])
        else:
            _print(sizes_of(client, found))


def names_of(
    client: BlockingClient, scope: str | None, tag: str | None, *, internal: bool
) -> Iterator[tuple[str, str]]:
    """Yield scope and name of the streams of a scope, or of all, sorted."""
    for each in sorted(client.list_scopes()) if scope is None else [scope]:
        if scope is None and each.startswith("_") and not internal:
            continue
        for stream in sorted(client.list_streams(each, tag=tag, internal=internal)):
            yield each, stream


def _print(sizes: Iterator[StreamSize]) -> None:
    table = StreamedColumns(("STREAM", "SEGMENTS", "BYTES", "STATE", "TAGS"))
    for each in sizes:
        name, state = f"{each.scope}/{each.stream}", "sealed" if each.sealed else "open"
        table.add(name, each.segments, each.size_bytes, state, " ".join(each.tags) or None)
    table.close()


def _document(size: StreamSize) -> dict[str, object]:
    return {
        "scope": size.scope,
        "stream": size.stream,
        "segments": size.segments,
        "bytes": size.size_bytes,
        "tags": list(size.tags),
        "sealed": size.sealed,
    }
