"""What ``headrace inspect cache`` prints: statistics of a running server, from its REST interface."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from headrace.cli.output import print_fields, print_json, print_line, printable
from headrace.cli.rest_questions import ask_rest
from headrace.cli.server.statistics import summary_of
from headrace.cli.servers import RestServer
from headrace.errors import ConnectionLostError

_PATH: Final = "/v1/debug/statistics"


def inspect_cache(*, container: int | None, everything: bool, rest: RestServer, as_json: bool) -> None:
    """Ask for the statistics; print what matters first, or ``everything``, one section per part.

    JSON, which programs read, has everything.
    """
    found = ask_statistics(rest, container)
    if as_json:
        print_json(found)
    elif everything:
        _print_everything(found)
    else:
        print_fields(summary_of(found))


def _print_everything(found: dict[str, Any]) -> None:
    containers = found.pop("containers", {})
    _print_part("cache", found.pop("cache", {}))
    for container_id, parts in containers.items():
        for name, values in parts.items():
            _print_part(f"container {container_id}: {name.replace('_', ' ')}", values)
    for name, values in found.items():
        _print_part(name.replace("_", " "), values)


def ask_statistics(rest: RestServer, container: int | None = None) -> dict[str, Any]:
    """Return the statistics of the server at ``rest``. Raises what ``ask_rest`` raises."""
    query = "" if container is None else f"?container={container}"
    what = "statistics" if container is None else f"container {container}"
    found = ask_rest(rest, f"{_PATH}{query}", what)
    if not _is_ours(found):
        raise ConnectionLostError(f"{rest.address} does not answer like a server of ours")
    statistics: dict[str, Any] = found
    return statistics


def _is_ours(found: object) -> bool:
    containers = found.get("containers", {}) if isinstance(found, dict) else None
    return isinstance(containers, dict) and all(isinstance(parts, dict) for parts in containers.values())


def _print_part(title: str, values: Any) -> None:
    fields = list(_flatten("", values))
    if fields:
        print_line(printable(title))
        print_fields([(f"  {name}", value) for name, value in fields])
        print_line("")


def _flatten(prefix: str, values: Any) -> Iterator[tuple[str, object]]:
    """Yield names and values of a tree: names of nested values are joined by dots."""
    if isinstance(values, dict):
        for name, value in values.items():
            yield from _flatten(f"{prefix}.{name}" if prefix else name, value)
    elif isinstance(values, list):
        yield prefix or "values", ", ".join(map(str, values)) or None
    else:
        yield prefix or "value", values
