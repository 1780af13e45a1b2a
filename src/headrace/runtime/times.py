"""Points in time as people write them: ``2026-11-25T10:00``, ``1h`` ago, milliseconds since 1970."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from headrace.errors import InvalidArgumentError
from headrace.model.quantities import parse_duration_ms

_MILLISECONDS: Final = re.compile(r"[0-9]{9,18}")
_DURATION: Final = re.compile(r"(?:[0-9.]+\s*[A-Za-z]+\s*)+")

_BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)


def milliseconds_of(time: datetime) -> int:
    """Return the whole milliseconds since 1970; a time without a zone is one of the local zone.

    Raises:
        ValueError, OverflowError, OSError: the machine cannot place it.
    """
    return (time.astimezone(UTC) - _BEGINNING) // timedelta(milliseconds=1)


def parse_time_ms(text: str, now_ms: int | None = None) -> int:
    """Return the milliseconds since 1970 that ``text`` names: a date, perhaps with a time, in ISO 8601 and in
    the local zone unless it says another; the number itself; or, with ``now_ms``, a duration before that.

    Raises:
        InvalidArgumentError: it is no time, or one before 1970.
    """
    text = text.strip()
    if _MILLISECONDS.fullmatch(text):
        return int(text)
    if now_ms is not None and _DURATION.fullmatch(text):
        return max(0, now_ms - parse_duration_ms(text))
    try:
        time_ms = milliseconds_of(datetime.fromisoformat(text))
    except (ValueError, OverflowError, OSError):
        ago = ", or how long ago such as 1h" if now_ms is not None else ""
        raise InvalidArgumentError(
            f"{text!r} is no time: use 2026-11-25T10:00, perhaps with a zone, or milliseconds since 1970{ago}"
        ) from None
    if time_ms < 0:
        raise InvalidArgumentError(f"{text!r} is before 1970")
    return time_ms
