"""Questions to the REST interface of a running server."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from http.client import BadStatusLine, HTTPException
from typing import Any, Final

from headrace.errors import ConnectionLostError, InvalidArgumentError, UnreachableError

_TIMEOUT_S: Final = 10
_BYTES_MAX: Final = 64 << 20
_NOT_FOUND: Final = 404


def ask_rest(address: str, path: str, what: str) -> Any:
    """Return the JSON that the server at ``address`` answers for ``path``; ``what`` names it for refusals.

    Raises:
        InvalidArgumentError: that is no address, or the server has not what is asked for.
        UnreachableError: no process takes the connection.
        ConnectionLostError: one answers, but not like a server of ours.
    """
    request = f"{_base_of(address)}{path}"
    # A server is asked directly: what the environment says about proxies is about other hosts.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=_TIMEOUT_S) as answer:
            return json.loads(answer.read(_BYTES_MAX))
    except urllib.error.HTTPError as error:
        if error.code == _NOT_FOUND:
            raise InvalidArgumentError(f"{address} has no {what}") from None
        raise ConnectionLostError(f"{address} answers {error.code}") from None
    except BadStatusLine as error:
        # Another protocol, such as that of the ports beside it; or nothing at all.
        raise ConnectionLostError(f"{address} does not answer like a server of ours: {error}") from None
    except urllib.error.URLError as error:
        raise UnreachableError(
            f"{address}: {error.reason}; is the server running, and is that its REST address?"
        ) from None
    except (HTTPException, OSError, ValueError, RecursionError) as error:
        why = str(error) or type(error).__name__
        raise ConnectionLostError(f"{address}: {why}; is the server running?") from None


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
