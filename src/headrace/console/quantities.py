"""Bytes, rates and times in words for people. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_PERIODS: Final = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def bytes_text(count: float) -> str:
    """``1536`` -> ``1.5 KiB``."""
    value = float(count)
    for unit in _UNITS:
        if value < 1023.5 or unit == _UNITS[-1]:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 99.95 else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError


def rate_text(bytes_per_s: float) -> str:
    return f"{bytes_text(bytes_per_s)}/s"


def period_text(ms: int) -> str:
    """``90_000`` -> ``1 min 30 s``: the two largest units."""
    seconds = max(0, ms) // 1000
    if seconds == 0:
        return f"{max(0, ms)} ms"
    parts = []
    for size, unit in _PERIODS:
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count} {unit}")
        elif parts:
            break
        if len(parts) == 2:
            break
    return " ".join(parts)


def time_text(ms: int) -> str:
    """``2026-11-29 12:00:01`` in UTC."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def clock_text(ms: int, span_ms: int) -> str:
    """A time as short as a span needs: the time of a day, or the day."""
    form = "%H:%M:%S" if span_ms < 3_600_000 else "%H:%M" if span_ms < 86_400_000 else "%m-%d %H:%M"
    return datetime.fromtimestamp(ms / 1000, UTC).strftime(form)
