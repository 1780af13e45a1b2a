"""Questions to the REST interface of a running server."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import urllib.error
import urllib.parse
import urllib.request
from http.client import BadStatusLine, HTTPException
from typing import Any, Final

from headrace.cli.output import printable
from headrace.cli.servers import RestServer, plain_with_authorities, tls_options
from headrace.errors import (
    ConnectionLostError,
    HeadraceError,
    InvalidArgumentError,
    PermissionDeniedError,
    ThrottledError,
    UnauthenticatedError,
    UnreachableError,
)
from headrace.runtime.client_variables import CREDENTIAL_VARIABLES

_TIMEOUT_S: Final = 10.0
_BYTES_MAX: Final = 64 << 20
_UNAUTHORIZED: Final = 401
_FORBIDDEN: Final = 403
_NOT_FOUND: Final = 404
_MISDIRECTED: Final = 421
_UNAVAILABLE: Final = 503
_SENTENCE_BYTES_MAX: Final = 4096
_PROBE_S: Final = 2.0


def ask_rest(
    server: RestServer,
    path: str,
    what: str,
    *,
    method: str = "GET",
    body: object = None,
    timeout_s: float = _TIMEOUT_S,
) -> Any:
    """Return the JSON of the server at ``server`` for ``path``; ``what`` names it for refusals.

    ``body``: a JSON value to send; None: nothing.

    Raises:
        InvalidArgumentError: that is no address, or the server has not what is asked for.
        AccessDeniedError: credentials are missing, wrong or not for this.
        TlsError: the server and this question do not agree about encryption.
        UnreachableError: no process takes the connection.
        ConnectionLostError: one answers, but not like a server of ours.
    """
    address = server.address
    base = _base_of(address)
    authorization = _authorization()
    data = None if body is None else json.dumps(body).encode()
    headers = {} if data is None else {"Content-Type": "application/json"}
    url = f"{base}{path}"  # of a scheme that was looked at
    request = urllib.request.Request(url, data, headers, method=method)  # noqa: S310
    if authorization is not None:
        request.add_unredirected_header("Authorization", authorization)
    # A server is asked directly: what the environment says about proxies is about other hosts.
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
    if base.startswith("https:"):
        handlers.append(urllib.request.HTTPSHandler(context=_context(server.tls_ca)))
    elif server.tls_ca:
        raise plain_with_authorities(address, "https")
    try:
        with urllib.request.build_opener(*handlers).open(request, timeout=timeout_s) as answer:
            return json.loads(answer.read(_BYTES_MAX))
    except urllib.error.HTTPError as error:
        raise _refusal(error, address, what, authorization) from None
    except BadStatusLine as error:
        # Another protocol, such as that of the ports beside it, or TLS; or nothing at all.
        raise _find_tls_failure(base, None) or ConnectionLostError(
            f"{address} does not answer like a server of ours: {error}"
        ) from None
    except urllib.error.URLError as error:
        raise _find_tls_failure(base, error.reason) or UnreachableError(
            f"{address}: {error.reason}; is the server running, and is that its REST address?"
        ) from None
    except (HTTPException, OSError, ValueError, RecursionError) as error:
        why = str(error) or type(error).__name__
        raise _find_tls_failure(base, error) or ConnectionLostError(
            f"{address}: {why}; is the server running?"
        ) from None


def _refusal(
    error: urllib.error.HTTPError, address: str, what: str, authorization: str | None
) -> HeadraceError:
    code = error.code
    if code == _NOT_FOUND:
        return InvalidArgumentError(f"{address} has no {what}")
    if code == _UNAUTHORIZED:
        from headrace.client.credentials import NO_CREDENTIALS

        reason = "are wrong" if authorization else f"are missing: {NO_CREDENTIALS}"
        return UnauthenticatedError(f"{address}: the credentials {reason}")
    if code == _FORBIDDEN:
        return PermissionDeniedError(f"{address}: this user may not read its {what}")
    sentence = _sentence_of(error)
    if code == _MISDIRECTED:
        return InvalidArgumentError(f"{address}: {sentence or 'that is no name of this server'}")
    if code == _UNAVAILABLE:
        return ThrottledError(f"{address}: {sentence or 'not now'}; repeat it")
    return ConnectionLostError(f"{address} answers {code}{sentence and f': {sentence}'}")


def _sentence_of(error: urllib.error.HTTPError) -> str:
    """Return what a server of ours says of a refusal; empty if it is none of ours."""
    try:
        document = json.loads(error.read(_SENTENCE_BYTES_MAX))
        return printable(str(document["error"]))
    except (OSError, HTTPException, ValueError, KeyError, TypeError, RecursionError):
        return ""


def _authorization() -> str | None:
    """Return the header of the user whom the environment names."""
    if not any(map(os.environ.get, CREDENTIAL_VARIABLES)):
        return None  # and the client need not be imported
    from headrace.client.credentials import Credentials

    credentials = Credentials.from_environment()
    return None if credentials is None else credentials.header


def _context(authorities: str | None) -> ssl.SSLContext:
    from headrace.client.config import ClientConfig
    from headrace.client.connections.tls import tls_context

    return tls_context(ClientConfig(credentials=None, **tls_options(authorities)))


def _find_tls_failure(base: str, error: object) -> HeadraceError | None:
    """Return why there is no TLS, or no connection without it."""
    from headrace.client.connections.tls_failures import failure_of_socket, server_speaks_tls
    from headrace.client.connections.tls_probe import speaks_tls
    from headrace.model.endpoint import Endpoint

    parts = urllib.parse.urlsplit(base)
    if isinstance(error, ssl.SSLError):
        return failure_of_socket(error, parts.netloc)
    hung_up = error is None or isinstance(error, ConnectionResetError)
    if parts.scheme == "http" and hung_up and parts.hostname and parts.port:
        endpoint = Endpoint(parts.hostname, parts.port)
        if asyncio.run(speaks_tls(endpoint, _PROBE_S)):
            return server_speaks_tls(parts.netloc)
    return None


def _base_of(address: str) -> str:
    """Return the URL of ``HOST:PORT``, with or without ``http://`` or ``https://``.

    Raises:
        InvalidArgumentError: it has not this form.
    """
    scheme = "https" if address.startswith("https://") else "http"
    base = f"{scheme}://{address.removeprefix(f'{scheme}://').rstrip('/')}"
    try:
        parts = urllib.parse.urlsplit(base)
        legal = bool(parts.hostname and parts.port) and base == f"{scheme}://{parts.netloc}"
    except ValueError:
        legal = False
    if not legal or "@" in base or not base.isascii() or any(char <= " " or char == "\x7f" for char in base):
        raise InvalidArgumentError(
            f"{address!r} is no address: it has the form HOST:PORT or https://HOST:PORT"
        )
    return base
