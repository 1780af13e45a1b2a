"""The text form of positions in listings."""

from __future__ import annotations

import base64
import binascii
from typing import Final

from headrace.errors import InvalidArgumentError

_PREFIX: Final = "1-"
"""Version of the text form of tokens, which also makes the token of an empty position non-empty."""


def token_to_text(token: bytes) -> str:
    """Render the position of a listing. Never empty: an empty one would start the listing again."""
    return _PREFIX + base64.urlsafe_b64encode(token).decode("ascii")


def token_from_text(text: str) -> bytes:
    """Return the position; empty for the start.

    Raises:
        InvalidArgumentError: the token was not made here.
    """
    if not text:
        return b""
    try:
        if not text.startswith(_PREFIX):
            raise ValueError(text)
        return base64.b64decode(text.removeprefix(_PREFIX), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        raise InvalidArgumentError("the continuation token is not one of this service") from None
