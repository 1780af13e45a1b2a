"""Sizes and durations as people write them: ``64 MiB``, ``1.5 s``, ``2d``, ``2h30m``.

The only parser of them: every interface that takes such a text takes the same spellings.
"""

from __future__ import annotations

import re
from typing import Final

from headrace.errors import InvalidArgumentError
from headrace.limits import GIB, KIB, MIB

SIZE_UNITS: Final = "KiB, MiB, GiB or TiB (kB, MB, GB and TB count by 1000)"
DURATION_UNITS: Final = "ms, s, min, h, d or w"

_CHARS_MAX: Final = 1000
"""Python makes no number of more than some thousand digits."""

_PART: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*", re.ASCII)

_SIZES: Final = {
    "b": 1, "kib": KIB, "mib": MIB, "gib": GIB, "tib": 1024 * GIB,
    "k": KIB, "m": MIB, "g": GIB, "kb": 1000, "mb": 1000**2, "gb": 1000**3, "tb": 1000**4,
    "byte": 1, "bytes": 1,
}  # fmt: skip

_DURATIONS_MS: Final = {
    "ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000,
    "millisecond": 1, "sec": 1000, "second": 1000, "minute": 60_000, "hr": 3_600_000, "hour": 3_600_000,
    "day": 86_400_000, "week": 604_800_000,
}  # fmt: skip
"""A word may be in the plural."""

_MINUTES: Final = "m"
"""Of a duration only behind hours or more, as in ``2h30m``: alone it could be MiB as well."""


def parse_bytes(text: str, *, unit_default: int | None = None) -> int:
    """Return the number of bytes that ``text`` names: ``4096 B``, ``64 KiB``, ``1.5GiB``, ``10 MB``.

    Args:
        text: a number and its unit.
        unit_default: the bytes of the unit of a number alone; None: it has none and is refused.

    Raises:
        InvalidArgumentError: it is no size, or no whole number of bytes.
    """
    parts = _split(text, "size")
    number, unit = parts[0]
    if len(parts) > 1:
        raise InvalidArgumentError(f"{text!r} is not a size: one number with one unit")
    factor = _SIZES.get(unit.lower()) if unit else unit_default
    if factor is None:
        raise _no_unit(text, unit, SIZE_UNITS)
    return _whole(text, number, factor)


def parse_duration_ms(text: str, *, unit_default_ms: int | None = None) -> int:
    """Return the milliseconds that ``text`` names: ``250ms``, ``30 s``, ``5min``, ``2h30m``, ``7 days``.

    Args:
        text: numbers with their units, the longest unit first.
        unit_default_ms: the length of the unit of a number alone; None: it has none and is refused.

    Raises:
        InvalidArgumentError: it is no duration, or no whole number of milliseconds.
    """
    total, longer = 0, 0
    parts = _split(text, "duration")
    for number, unit in parts:
        factor = _duration_unit_ms(unit, after_longer=longer > _DURATIONS_MS["min"])
        if not unit and len(parts) == 1:
            factor = unit_default_ms
        if factor is None:
            raise _no_unit(text, unit, DURATION_UNITS)
        if longer and factor >= longer:
            raise InvalidArgumentError(
                f"{text!r} is not a duration: its units go from long to short, as 2h30m"
            )
        total, longer = total + _whole(text, number, factor), factor
    return total


def _duration_unit_ms(unit: str, *, after_longer: bool) -> int | None:
    word = unit.lower()
    if word == _MINUTES:
        return _DURATIONS_MS["min"] if after_longer else None
    return _DURATIONS_MS.get(word.removesuffix("s") if len(word) > 2 else word)


def _no_unit(text: str, unit: str, known: str) -> InvalidArgumentError:
    if not unit:
        return InvalidArgumentError(f"{text!r} has a number without a unit, which is {known}")
    hint = "; minutes are min" if unit.lower() == _MINUTES else ""
    return InvalidArgumentError(f"{text!r}: unknown unit {unit!r}, use {known}{hint}")


def _split(text: str, noun: str) -> list[tuple[str, str]]:
    """Return the numbers with their units; at least one."""
    parts: list[tuple[str, str]] = []
    at = 0
    while at < len(text) <= _CHARS_MAX:
        part = _PART.match(text, at)
        if part is None or (parts and not parts[-1][1]):
            break
        parts.append((part[1], part[2]))
        at = part.end()
    if at < len(text) or not parts:
        raise InvalidArgumentError(f"{text[:_CHARS_MAX]!r} is not a {noun}")
    return parts


def _whole(text: str, number: str, factor: int) -> int:
    """Multiply exactly: a float would round a large size."""
    digits, _, fraction = number.partition(".")
    value = int(digits + fraction) * factor
    scale: int = 10 ** len(fraction)
    if value % scale:
        raise InvalidArgumentError(f"{text!r} is no whole number of the smallest unit")
    return value // scale
