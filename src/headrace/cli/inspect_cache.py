"""What ``headrace inspect cache`` prints: statistics of a running server, from its REST interface."""

from __future__ import annotations

import argparse
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from http.client import BadStatusLine, HTTPException
from typing import Any, Final

from headrace.cli.output import print_fields, print_json, print_line, printable
from headrace.errors import ConnectionLostError, InvalidArgumentError, UnreachableError

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
    """Return the statistics of the server at ``address``.

    Raises:
        InvalidArgumentError: that is no address, or the server has no such container.
        UnreachableError: no process takes the connection.
        ConnectionLostError: one answers, but not like a server of ours.
    """
    query = "" if container is None else f"?container={container}"
    request = f"{_base_of(address)}{_PATH}{query}"
    # A server is asked directly: what the environment says about proxies is about other hosts.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=_TIMEOUT_S) as answer:
            found = json.loads(answer.read(_BYTES_MAX))
    except urllib.error.HTTPError as error:
        if error.code == _NOT_FOUND:
            what = "statistics" if container is None else f"container {container}"
            raise InvalidArgumentError(f"{address} has no {what}") from None
        raise ConnectionLostError(f"{address} answers {error.code}") from None
    except BadStatusLine as error:
        # Another protocol, such as that of the ports beside it; or nothing at all.
        raise ConnectionLostError(f"{address} does not answer like a server of ours: {error}") from None
    except urllib.error.URLError as error:
        raise UnreachableError(f"{address}: {error.reason}; is the server running?") from None
    except (HTTPException, OSError, ValueError, RecursionError) as error:
        why = str(error) or type(error).__name__
        raise ConnectionLostError(f"{address}: {why}; is the server running?") from None
    if not _is_ours(found):
        raise ConnectionLostError(f"{address} does not answer like a server of ours")
    statistics: dict[str, Any] = found
    return statistics


def _is_ours(found: object) -> bool:
    containers = found.get("containers", {}) if isinstance(found, dict) else None
    return isinstance(containers, dict) and all(isinstance(parts, dict) for parts in containers.values())


def _base_of(address: str) -> str:
    """Return the URL of ``HOST:PORT``, with or without ``http://``. Raises InvalidArgumentError."""
    base = f"http://{address.removeprefix('http://').rstrip('/')}"
    try:
        parts = urllib.parse.urlsplit(base)
        legal = bool(parts.hostname and parts.port) and base == f"http://{parts.netloc}" and "@" not in base
    except ValueError:
        legal = False
    if not legal or not base.isascii() or any(not char.isprintable() or char == " " for char in base):
        raise InvalidArgumentError(f"{address!r} is no address: it has the form HOST:PORT")
    return base


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
