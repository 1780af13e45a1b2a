"""What ``headrace stream wait`` does: returns when a stream is as a script needs it."""

from __future__ import annotations

import time  # noqa: TID251 - no loop runs here that has a clock
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from headrace.cli.output import print_json
from headrace.cli.progress import Progress
from headrace.cli.servers import Connection, scoped
from headrace.cli.stream.sizes import bytes_of
from headrace.errors import InvalidArgumentError, StreamSealedError, WaitTimeoutError
from headrace.model.quantities import parse_bytes, parse_duration_ms

if TYPE_CHECKING:  # the connection imports the client when it is made
    from headrace.client.blocking import BlockingClient

_POLL_S: Final = (0.05, 0.1, 0.2, 0.5)


def wait_for_stream(
    *,
    stream: str,
    events: int | None,
    size: str | None,
    segments: int | None,
    sealed: bool,
    timeout: str,
    connection: Connection,
    as_json: bool,
) -> None:
    """Wait, and print what there is then, if as JSON. A ``timeout`` without a unit is in seconds."""
    scope, name = scoped(stream)
    for what, value in (("events", events), ("segments", segments)):
        if value is not None and value < 1:
            raise InvalidArgumentError(f"there are at least 1 {what} to wait for, not {value}")
    size_bytes = None if size is None else parse_bytes(size, unit_default=1)
    timeout_s = parse_duration_ms(timeout, unit_default_ms=1000) / 1000
    with connection.connect() as client:
        found = wait_for(
            client,
            scope,
            name,
            events=events,
            size_bytes=size_bytes,
            segments=segments,
            sealed=sealed,
            timeout_s=timeout_s,
            quiet=as_json,
        )
    if as_json:
        unit = "events" if events is not None else "bytes" if size is not None else "segments"
        print_json({"scope": scope, "stream": name, unit: found})


def wait_for(
    client: BlockingClient,
    scope: str,
    stream: str,
    *,
    events: int | None = None,
    size_bytes: int | None = None,
    segments: int | None = None,
    sealed: bool = False,
    timeout_s: float,
    quiet: bool = False,
) -> int:
    """Wait for one of these: so many events or bytes, or more; exactly so many segments; the seal.

    Returns:
        What there is: events counted, bytes, or segments that take events.

    Raises:
        WaitTimeoutError: it did not come about in time.
        StreamSealedError: it never will.
        NoSuchStreamError: there is no such stream.
    """
    deadline = time.monotonic() + timeout_s
    if events is not None:
        return _wait_for_events(client, scope, stream, events, deadline, quiet=quiet)
    if size_bytes is not None:
        return _poll(
            client,
            scope,
            stream,
            "bytes",
            lambda: bytes_of(client, scope, stream),
            lambda found: found >= size_bytes,
            f"{size_bytes} bytes",
            deadline,
        )
    wanted = 0 if sealed else segments
    what = "its seal" if sealed else f"{segments} segments"
    return _poll(
        client,
        scope,
        stream,
        "segments",
        lambda: len(client.current_segments(scope, stream)),
        lambda found: found == wanted,
        what,
        deadline,
    )


def _wait_for_events(
    client: BlockingClient, scope: str, stream: str, wanted: int, deadline: float, *, quiet: bool
) -> int:
    """Count events as they come, from the head: no more of them are read than are waited for."""
    found = 0
    with (
        client.event_reader(scope, stream) as reader,
        Progress(f"waiting for {wanted:,} events", "events", wanted, quiet=quiet) as progress,
    ):
        while found < wanted:
            try:
                batch = reader.next_batch(max(0.001, deadline - time.monotonic()))
            except TimeoutError:
                raise _too_late(scope, stream, f"{wanted} events", f"{found} events counted so far") from None
            if batch is None:
                raise StreamSealedError(
                    f"stream {scope}/{stream} is sealed with {found} events, not {wanted}"
                )
            found += len(batch)
            progress.show(found)
    return found


def _poll(
    client: BlockingClient,
    scope: str,
    stream: str,
    unit: str,
    find: Callable[[], int | None],
    suffices: Callable[[int], bool],
    what: str,
    deadline: float,
) -> int:
    polls = 0
    while True:
        found = find()
        if found is None:
            raise InvalidArgumentError(f"stream {scope}/{stream} has too many segments to count its bytes")
        if suffices(found):
            return found
        if unit != "segments" and not client.current_segments(scope, stream):
            raise StreamSealedError(
                f"stream {scope}/{stream} is sealed with {found} {unit}: no more will come"
            )
        if unit == "segments" and not found:
            raise StreamSealedError(f"stream {scope}/{stream} is sealed: it will not have {what}")
        pause_s = _POLL_S[min(polls, len(_POLL_S) - 1)]
        if time.monotonic() + pause_s > deadline:
            raise _too_late(scope, stream, what, f"{found} {unit}")
        time.sleep(pause_s)
        polls += 1


def _too_late(scope: str, stream: str, wanted: str, found: str) -> WaitTimeoutError:
    return WaitTimeoutError(f"stream {scope}/{stream} has {found}; waited in vain for {wanted}")
