"""What ``headrace stream purge`` does: asks the server of the stream, which answers when it is done."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from headrace.cli.output import print_json
from headrace.cli.rest_questions import ask_rest
from headrace.cli.servers import RestServer, confirm, scoped
from headrace.errors import ConnectionLostError

_TIMEOUT_S: Final = 3600.0


def purge_stream(*, stream: str, yes: bool, rest: RestServer, as_json: bool) -> None:
    """Purge, and print where the stream begins."""
    scope, name = scoped(stream)
    confirm(f"Make what lies before the head of {stream} unreadable", yes=yes)
    path = f"/v1/scopes/{quote(scope, safe='')}/streams/{quote(name, safe='')}/purge"
    found = ask_rest(rest, path, f"stream {stream}", method="POST", timeout_s=_TIMEOUT_S)
    if not isinstance(found, dict) or "segments" not in found:
        raise ConnectionLostError(f"{rest.address} does not answer like a server of ours")
    if as_json:
        print_json(found)
