"""What ``headrace inspect cache`` prints: statistics of a running server, asked through its REST door."""

from __future__ import annotations

import argparse
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any, Final

from headrace.cli.output import print_fields, print_json, print_line
from headrace.errors import ConnectionLostError, InvalidArgumentError

_PATH: Final = "/v1/debug/statistics"
_TIMEOUT_S: Final = 10
_BYTES_MAX: Final = 64 << 20
_NOT_FOUND: Final = 404


def inspect_cache(chosen: argparse.Namespace) -> None:
    """Ask for everything and print it, one section per part."""
    found = _ask(chosen.rest, chosen.container)
    if chosen.json:
        print_json(found)
        return
    containers = found.pop("containers", {})
    _print_part("cache", found.pop("cache", {}))
    for container_id, parts in containers.items():
        for name, values in parts.items():
            _print_part(f"container {container_id}: {name.replace('_', ' ')}", values)
    for name, values in found.items():
        _print_part(name.replace("_", " "), values)


def _ask(address: str, container: int | None) -> dict[str, Any]:
    query = "" if container is None else f"?container={container}"
    request = f"http://{address.removeprefix('http://').rstrip('/')}{_PATH}{query}"
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
            found = json.loads(answer.read(_BYTES_MAX))
    except urllib.error.HTTPError as error:
        if error.code == _NOT_FOUND:
            what = "statistics" if container is None else f"container {container}"
            raise InvalidArgumentError(f"{address} has no {what}") from None
        raise ConnectionLostError(f"{address} answers {error.code}") from None
    except (OSError, ValueError) as error:
        raise ConnectionLostError(f"{address}: {error}; is the server running?") from None
    if not isinstance(found, dict):
        raise ConnectionLostError(f"{address} does not answer like a server of ours")
    return found


def _print_part(title: str, values: Any) -> None:
    fields = list(_flatten("", values))
    if fields:
        print_line(title)
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
