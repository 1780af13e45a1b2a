"""The ``authorization`` header of a call, of gRPC or HTTP: ``Basic dXNlcjpwYXNz``. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from headrace.errors import UnauthenticatedError

AUTHORIZATION: Final = "authorization"
HEADER_CHARS_MAX: Final = 8192
"""Credentials of ours are short; access tokens of others are not."""


def authorization_of(headers: Iterable[tuple[str, str | bytes]]) -> str:
    """Return the value of the only ``authorization`` header; empty if there is none.

    Raises:
        UnauthenticatedError: there are several, or it is no printable ASCII text of bounded length. The text
            holds nothing of it.
    """
    found = [value for key, value in headers if key == AUTHORIZATION]
    if not found:
        return ""
    if len(found) > 1:
        raise UnauthenticatedError("the call has several authorization headers: send one")
    value = found[0]
    if not isinstance(value, str) or not (value.isascii() and value.isprintable()):
        raise UnauthenticatedError("the authorization header is no printable ASCII text")
    if len(value) > HEADER_CHARS_MAX:
        raise UnauthenticatedError(f"the authorization header has more than {HEADER_CHARS_MAX} characters")
    return value
