"""Whether a time that is asked about can be meant. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from headrace.errors import InvalidArgumentError
from headrace.limits import INT64_MAX

AHEAD_MS_MAX: Final = 300_000
"""By which the clock of a caller may be ahead of ours."""

FIRST_MS: Final = 946_684_800_000
"""The year 2000. What is earlier is mostly a time in seconds: as milliseconds it lies in January of 1970."""

_BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FORMATTED_MS_MAX: Final = 253_402_300_799_999


def check_not_too_early(time_ms: int) -> None:
    """Raises InvalidArgumentError for what is no time, or lies before any stream."""
    if not 0 <= time_ms <= INT64_MAX:
        raise InvalidArgumentError(f"{time_ms} is no time in ms since 1970")
    if time_ms < FIRST_MS:
        raise InvalidArgumentError(
            f"{time_ms} ms since 1970 is {_text(time_ms)}, before any stream: seconds have to be multiplied "
            "by 1000, and where a stream begins is its head"
        )


def check_not_in_future(time_ms: int, now_ms: int) -> None:
    """Raises InvalidArgumentError for what is later than now, by more than clocks differ."""
    if time_ms > now_ms + AHEAD_MS_MAX:
        raise InvalidArgumentError(
            f"{_text(time_ms)} is in the future (it is {_text(now_ms)} here): where a stream will be is not "
            "known, and where it is now is its tail"
        )


def _text(time_ms: int) -> str:
    if time_ms > _FORMATTED_MS_MAX:
        return f"{time_ms} ms since 1970"
    return (_BEGINNING + timedelta(milliseconds=time_ms)).strftime("%Y-%m-%dT%H:%M:%SZ")
