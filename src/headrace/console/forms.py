"""What a form sends: a few short fields."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl

from starlette.requests import Request

from headrace.errors import InvalidArgumentError
from headrace.web.refusals import BodyTooLargeError

FORM_BYTES_MAX: Final = 64 << 10
_FIELDS_MAX: Final = 50


async def fields_of(request: Request) -> dict[str, str]:
    """Return the fields of a form by name.

    Raises:
        BodyTooLargeError: it has more than ``FORM_BYTES_MAX`` bytes.
        InvalidArgumentError: it is no form.
    """
    received = bytearray()
    async for piece in request.stream():
        received += piece
        if len(received) > FORM_BYTES_MAX:
            raise BodyTooLargeError(f"a form has at most {FORM_BYTES_MAX} bytes")
    try:
        pairs = parse_qsl(
            received.decode(), keep_blank_values=True, max_num_fields=_FIELDS_MAX, errors="strict"
        )
    except ValueError:
        raise InvalidArgumentError("what was sent is no form") from None
    return dict(pairs)
