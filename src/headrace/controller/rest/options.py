"""Options behind the question mark of an address, checked."""

from __future__ import annotations

import re
from typing import Final

from starlette.requests import Request

from headrace.limits import INT64_MAX
from headrace.web.refusals import InvalidFieldError

_SHOWN_CHARS: Final = 40
_TIME: Final = re.compile(r"[0-9]{1,19}\Z")
_COUNT: Final = re.compile(r"[0-9]{1,9}\Z")


def time_of(request: Request, name: str) -> int:
    """Return a query option that is a time in ms. Raises InvalidFieldError."""
    text = request.query_params.get(name, "")
    if not _TIME.match(text) or int(text) > INT64_MAX:
        raise InvalidFieldError(name, f"{name} is a time in ms since 1970, not {text[:_SHOWN_CHARS]!r}")
    return int(text)


def count_of(request: Request, name: str, highest: int, default: int) -> int:
    """Return a query option that is a number of things from 1 to ``highest``. Raises InvalidFieldError."""
    text = request.query_params.get(name)
    if text is None:
        return default
    if not _COUNT.match(text) or not 1 <= int(text) <= highest:
        raise InvalidFieldError(name, f"{name} is 1 to {highest:,}, not {text[:_SHOWN_CHARS]!r}")
    return int(text)
