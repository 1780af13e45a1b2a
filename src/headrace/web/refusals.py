"""What the REST interface answers instead of a result: a status, and JSON that says what is wrong.

``{"error": "scopeName is missing", "field": "scopeName"}``; ``field`` names the member or option of the
request, if it is one. The clients of the protocol read the status only.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from headrace.errors import (
    AccessDeniedError,
    HeadraceError,
    InvalidArgumentError,
    NoSuchReaderGroupError,
    NoSuchScopeError,
    NoSuchStreamError,
    OverloadError,
    OwnershipError,
    ScopeExistsError,
    ScopeNotEmptyError,
    StreamExistsError,
    StreamNotSealedError,
    UnauthenticatedError,
)
from headrace.runtime.logs import logger
from headrace.web.answers import answer
from headrace.web.models import Refusal
from headrace.web.origin_rules import BodyNotJsonError, ForeignHostError

Handler = Callable[[Request], Awaitable[Response]]

RETRY_AFTER_S: Final = 1

_UNAUTHENTICATED: Final = 401
_FAILURE: Final = 500
_UNAVAILABLE: Final = 503

_log = logger(__name__)


class InvalidFieldError(InvalidArgumentError):
    """A member or option of a request is missing, of the wrong type or out of range."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class BodyTooLargeError(InvalidArgumentError):
    """The body of a request exceeds its bound."""


_STATUS: Final[dict[type[HeadraceError], int]] = {
    UnauthenticatedError: _UNAUTHENTICATED,
    AccessDeniedError: 403,
    BodyTooLargeError: 413,
    BodyNotJsonError: 415,
    ForeignHostError: 421,
    InvalidArgumentError: 400,
    NoSuchScopeError: 404,
    NoSuchStreamError: 404,
    NoSuchReaderGroupError: 404,
    ScopeExistsError: 409,
    StreamExistsError: 409,
    ScopeNotEmptyError: 412,
    StreamNotSealedError: 412,
    OwnershipError: _UNAVAILABLE,
    OverloadError: _UNAVAILABLE,
}


_HEADERS: Final = {
    _UNAUTHENTICATED: {"WWW-Authenticate": 'Basic realm="headrace"'},
    _UNAVAILABLE: {"Retry-After": str(RETRY_AFTER_S)},
}


def refusal(status: int, text: str, field: str = "") -> Response:
    """Return the answer for something that is not done; 503 says when to try again, 401 which credentials."""
    return answer(Refusal(text, field), status, _HEADERS.get(status))


def status_of(error: HeadraceError) -> int:
    """Return the status of the answer for an error of ours."""
    return next((_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS), _FAILURE)


def refusal_of(error: HeadraceError) -> Response:
    """Return the answer for an error of ours."""
    status = status_of(error)
    field = error.field if isinstance(error, InvalidFieldError) else ""
    return refusal(status, str(error) or type(error).__name__, field)


def guarded(handler: Handler) -> Handler:
    """Turn errors into refusals; what is not ours is logged and is a 500."""

    async def handle(request: Request) -> Response:
        try:
            return await handler(request)
        except HeadraceError as error:
            answer = refusal_of(error)
            if answer.status_code == _FAILURE:
                _log.warning("request failed", path=request.url.path, error=str(error))
            return answer
        except ClientDisconnect:
            return Response(status_code=400)  # to no one: the client left before it had sent its request
        except Exception as error:  # noqa: BLE001 - a bug of ours must not look like an answer
            _log.error("request failed", path=request.url.path, exc_info=error)
            return refusal(_FAILURE, "the request failed; the log of the server says why")

    return handle


def refusing_routes(where_paths_are_told: str) -> Callable[[Request, Exception], Awaitable[Response]]:
    """Return what answers for a path that does not exist, or that has not the verb of the request."""

    async def refuse(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        allowed = ", ".join(sorted((error.headers or {}).get("Allow", "").split(", ")))
        what = (
            f"{request.method} is not allowed here, but {allowed}"
            if allowed
            else f"there is no such path; {where_paths_are_told}"
        )
        answer = refusal(error.status_code, f"{request.url.path}: {what}")
        answer.headers.update(error.headers or {})
        return answer

    return refuse
