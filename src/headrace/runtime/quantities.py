"""Sizes and durations as people write them: ``64 MiB``, ``1.5 s``, ``2d``."""

from __future__ import annotations

import re
from typing import Final

from headrace.errors import InvalidArgumentError
from headrace.limits import GIB, KIB, MIB

_QUANTITY: Final = re.compile(r"([0-9]{1,1000}(?:\.[0-9]{1,1000})?)\s*([A-Za-z]*)")
"""Python makes no number of more than some thousand digits."""

_SIZES: Final = {
    "": 1, "b": 1, "kib": KIB, "mib": MIB, "gib": GIB, "tib": 1024 * GIB,
    "k": KIB, "m": MIB, "g": GIB, "kb": 1000, "mb": 1000**2, "gb": 1000**3,
}  # fmt: skip

_DURATIONS_MS: Final = {
    "ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000,
    "second": 1000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000, "week": 604_800_000,
}  # fmt: skip
"""A word may be in the plural."""


def parse_bytes(text: str) -> int:
    """Return the number of bytes that ``text`` names: ``4096``, ``64 KiB``, ``1.5GiB``, ``10 MB``.

    Raises:
        InvalidArgumentError: it is no size, or no whole number of bytes.
    """
    number, unit = _split(text, "size")
    factor = _SIZES.get(unit.lower())
    if factor is None:
        raise InvalidArgumentError(f"{text!r}: unknown unit {unit!r}, use KiB, MiB, GiB or TiB")
    return _whole(text, number, factor)


def parse_duration_ms(text: str, *, unit_default_ms: int = 1) -> int:
    """Return the milliseconds that ``text`` names: ``250ms``, ``30 s``, ``5min``, ``2h``, ``7 days``.

    Raises:
        InvalidArgumentError: it is no duration, or no whole number of milliseconds.
    """
    number, unit = _split(text, "duration")
    word = unit.lower()
    factor = _DURATIONS_MS.get(word.removesuffix("s") if len(word) > 2 else word) if unit else unit_default_ms
    if factor is None:
        raise InvalidArgumentError(f"{text!r}: unknown unit {unit!r}, use ms, s, min, h or d")
    return _whole(text, number, factor)


def _split(text: str, noun: str) -> tuple[str, str]:
    match = _QUANTITY.fullmatch(text.strip())
    if match is None:
        raise InvalidArgumentError(f"{text!r} is not a {noun}")
    return match[1], match[2]


def _whole(text: str, number: str, factor: int) -> int:
    """Multiply exactly: a float would round a large size."""
    digits, _, fraction = number.partition(".")
    value = int(digits + fraction) * factor
    scale: int = 10 ** len(fraction)
    if value % scale:
        raise InvalidArgumentError(f"{text!r} is no whole number of the smallest unit")
    return value // scale
