"""What ``headrace controller failed-events`` prints: requests between controllers that were given up."""

from __future__ import annotations

from typing import Any, Final

from headrace.cli.output import print_columns, print_json, print_line, printable, progress
from headrace.cli.rest_questions import ask_rest
from headrace.cli.servers import RestServer
from headrace.errors import ConnectionLostError

_PATH: Final = "/v1/debug/failed-events"
_COLUMNS: Final = ("time", "bucket", "offset", "kind", "stream", "controller", "reason")


def failed_events(*, rest: RestServer, as_json: bool) -> None:
    """Ask a controller and print one line for each request, the oldest first."""
    found = ask_rest(rest, _PATH, "list of failed events")
    events: Any = found.get("events") if isinstance(found, dict) else None
    if not isinstance(events, list) or not all(isinstance(each, dict) for each in events):
        raise ConnectionLostError(f"{rest.address} does not answer like a server of ours")
    if as_json:
        print_json(found)
        return
    if not events:
        print_line("no request was set aside")
        return
    print_columns(_COLUMNS, [[_cell(each.get(name)) for name in _COLUMNS] for each in events])
    if found.get("dropped"):
        progress(f"{found['dropped']} older ones are not retained")


def _cell(value: object) -> object:
    return value if isinstance(value, int | float) else printable(str(value))
