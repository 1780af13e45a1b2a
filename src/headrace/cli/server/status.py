"""What ``headrace status`` does: asks the REST interface and the controller of a server."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from click.exceptions import Exit

from headrace.cli.inspect.cache import ask_statistics
from headrace.cli.output import print_fields, print_json, printable, progress
from headrace.cli.rest_questions import ask_rest
from headrace.cli.server.state import not_ready, waiting
from headrace.cli.server.statistics import oldest_s, size_words, unstored_bytes
from headrace.cli.servers import Connection, RestServer
from headrace.errors import (
    EXIT_CODES,
    AccessDeniedError,
    ConnectionLostError,
    HeadraceError,
    InvalidArgumentError,
    OverloadError,
)

if TYPE_CHECKING:  # the connection imports the client when it is made
    from headrace.client.blocking import BlockingClient

_STREAMS_SIZED_MAX: Final = 1000
"""The bytes of more streams are not counted: each is asked for."""
_REST_PORT: Final = 10080


@dataclass(frozen=True, slots=True)
class _Held:
    """What streams hold; None: that is not known."""

    streams: int | None = None
    size_bytes: int | None = None


def show_status(*, rest: RestServer, connection: Connection, as_json: bool) -> None:
    """Print the state of a server. Exit code 4 if it is not ready."""
    if not rest.address:
        rest = _rest_beside(connection)
    health = _health(rest)
    if not isinstance(health, dict) or "readiness" not in health:
        raise ConnectionLostError(f"{rest.address} does not answer like a server of ours")
    why = not_ready(health)
    statistics = _statistics(rest)
    held = _Held() if why else _held(connection)
    waits = [] if statistics is None else waiting(statistics)
    unstored = None if statistics is None else unstored_bytes(statistics)
    if as_json:
        print_json(
            {
                "ready": not why,
                "not_ready": why,
                "streams": held.streams,
                "bytes": held.size_bytes,
                "unstored_bytes": unstored,
                "waits": waits,
            }
        )
    else:
        age = "" if not unstored or statistics is None else f", the oldest for {oldest_s(statistics):.0f} s"
        print_fields(
            [
                ("ready", f"no: {printable('; '.join(why))}" if why else "yes"),
                ("streams", held.streams),
                ("bytes", None if held.size_bytes is None else size_words(held.size_bytes)),
                ("unstored", None if unstored is None else f"{size_words(unstored)}{age}"),
                ("waits", "; ".join(waits) or (None if statistics is None else "nothing")),
            ]
        )
    if why:
        raise Exit(EXIT_CODES[OverloadError])


def _rest_beside(connection: Connection) -> RestServer:
    """Return where the server of a controller answers REST, unless somebody has changed that."""
    from headrace.client.config import ControllerAddress

    controller = ControllerAddress.parse(connection.uri)
    scheme = "https" if controller.tls else "http"
    host = controller.endpoints[0].host_in_uri
    return RestServer(f"{scheme}://{host}:{_REST_PORT}", connection.tls_ca)


def _health(rest: RestServer) -> Any:
    """Return the health of all processes, as a controller knows it; else that of the process."""
    try:
        return ask_rest(rest, "/v1/cluster/health", "health")
    except (AccessDeniedError, InvalidArgumentError):  # it is no controller, or this user may not know
        return ask_rest(rest, "/v1/health", "health")


def _statistics(rest: RestServer) -> dict[str, Any] | None:
    """Return what the server counts; None: this user may not know."""
    try:
        return ask_statistics(rest)
    except AccessDeniedError:
        return None


def _held(connection: Connection) -> _Held:
    from headrace.cli.stream.listing import names_of
    from headrace.cli.stream.sizes import sizes_of

    def bytes_of(client: BlockingClient, names: list[tuple[str, str]]) -> int | None:
        if len(names) > _STREAMS_SIZED_MAX:
            return None
        sizes = [each.size_bytes for each in sizes_of(client, names)]
        return None if None in sizes else sum(filter(None, sizes))

    with connection.connect() as client:
        try:
            found = names_of(client, None, None, internal=False)
            names = list(islice(found, _STREAMS_SIZED_MAX + 1))
            return _Held(len(names) + sum(1 for _ in found), bytes_of(client, names))
        except HeadraceError as error:  # it is ready all the same, as far as it says itself
            progress(printable(f"streams are not known: {connection.uri}: {error}"))
            return _Held()
