"""How much of a stream is retained, as people write it: ``7 days``, ``2h30m``, ``10 GiB``, ``none``."""

from __future__ import annotations

import re
from typing import Final

from headrace.errors import InvalidArgumentError
from headrace.model.policies import RetentionKind, RetentionPolicy, check_retains
from headrace.model.quantities import DURATION_UNITS, SIZE_UNITS, parse_bytes, parse_duration_ms

NONE: Final = "none"

_EXAMPLES: Final = {
    RetentionKind.NONE: "such as '7 days', '12 h' or '10 GiB'",
    RetentionKind.TIME: "such as '7 days', '2h30m' or '12 h'",
    RetentionKind.SIZE: "such as '10 GiB' or '500 MB'",
}
_NOUNS: Final = {
    RetentionKind.NONE: "retention: a time or a size",
    RetentionKind.TIME: "retention by time",
    RetentionKind.SIZE: "retention by size",
}
_UNITS: Final = {
    RetentionKind.NONE: f"{DURATION_UNITS}; {SIZE_UNITS}",
    RetentionKind.TIME: DURATION_UNITS,
    RetentionKind.SIZE: SIZE_UNITS,
}
_NUMBER: Final = re.compile(r"[0-9.]+")
_AMBIGUOUS: Final = re.compile(r"[0-9.]+\s*[mM]")
"""Minutes or MiB."""


def parse_retention(
    text: str, kind: RetentionKind = RetentionKind.NONE, *, words_for_none: str = "'none'"
) -> RetentionPolicy:
    """Return the policy that ``text`` names: a time, a size, or ``none``.

    Args:
        text: what was written.
        kind: what it has to be; NONE: either.
        words_for_none: how whoever takes the text writes that everything is retained, for an error.

    Raises:
        InvalidArgumentError: it is no time and no size, has no unit, or is zero.
    """
    stripped = text.strip()
    if stripped.lower() == NONE:
        return RetentionPolicy.none()
    if _NUMBER.fullmatch(stripped):
        if not stripped.strip("0."):
            check_retains(0, repr(text), words_for_none)
        raise InvalidArgumentError(
            f"{text!r} is no retention: a number needs its unit ({_UNITS[kind]}), {_EXAMPLES[kind]}"
        )
    found = None if _AMBIGUOUS.fullmatch(stripped) else _either(stripped)
    if found is None or kind not in {RetentionKind.NONE, found[0]}:
        raise InvalidArgumentError(f"{text!r} is no {_NOUNS[kind]}, {_EXAMPLES[kind]}")
    check_retains(found[1], repr(text), words_for_none)
    return RetentionPolicy(*found)


def _either(text: str) -> tuple[RetentionKind, int] | None:
    try:
        return RetentionKind.TIME, parse_duration_ms(text)
    except InvalidArgumentError:
        pass
    try:
        return RetentionKind.SIZE, parse_bytes(text)
    except InvalidArgumentError:
        return None
