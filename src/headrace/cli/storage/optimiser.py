"""What ``headrace storage optimiser`` does: shows, pauses and resumes the merging of small chunks."""

from __future__ import annotations

import time  # noqa: TID251 - no loop runs here that has a clock
from typing import Any, Final

from headrace.cli.output import print_columns, print_json, print_line
from headrace.cli.rest_questions import ask_rest
from headrace.cli.servers import RestServer
from headrace.errors import ConnectionLostError, WaitTimeoutError

_PATH: Final = "/v1/storage/optimiser"
_WHAT: Final = "storage optimiser"
_COLUMNS: Final = ("container", "state", "rounds", "candidatesLeft", "chunksReplaced", "bytesRewritten")
_TITLES: Final = ("CONTAINER", "STATE", "ROUNDS", "CANDIDATES LEFT", "CHUNKS MERGED", "BYTES REWRITTEN")
_STEP_S: Final = 120.0
"""How long the step that runs at a pause may take."""
_POLL_S: Final = 0.2


def show_optimiser(*, rest: RestServer, as_json: bool) -> None:
    """Print how far each container is."""
    _print(_checked(rest, ask_rest(rest, _PATH, _WHAT)), as_json=as_json)


def pause_optimiser(*, rest: RestServer, as_json: bool) -> None:
    """Pause it, and return when nothing is rewritten any more.

    Raises:
        WaitTimeoutError: a step still runs; it is the last one.
    """
    found = _checked(rest, ask_rest(rest, _PATH, _WHAT, method="PUT", body={"paused": True}))
    deadline = time.monotonic() + _STEP_S
    while any(each["state"] == "pausing" for each in found["containers"]):
        if time.monotonic() > deadline:
            raise WaitTimeoutError(f"{rest.address}: it is paused, but a step of it still runs")
        time.sleep(_POLL_S)
        found = _checked(rest, ask_rest(rest, _PATH, _WHAT))
    _print(found, as_json=as_json)


def resume_optimiser(*, rest: RestServer, as_json: bool) -> None:
    """Let it go on where it is."""
    found = ask_rest(rest, _PATH, _WHAT, method="PUT", body={"paused": False})
    _print(_checked(rest, found), as_json=as_json)


def _checked(rest: RestServer, found: Any) -> dict[str, Any]:
    containers = found.get("containers") if isinstance(found, dict) else None
    if not isinstance(containers, list) or not all(
        isinstance(each, dict) and each.keys() >= set(_COLUMNS) for each in containers
    ):
        raise ConnectionLostError(f"{rest.address} does not answer like a server of ours")
    return dict(found)


def _print(found: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    if found["containers"]:
        print_columns(_TITLES, [[each[name] for name in _COLUMNS] for each in found["containers"]])
        return
    print_line(f"nothing is merged here: container.optimiser.mode is {found.get('mode')}")
