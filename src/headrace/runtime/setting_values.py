"""One value of a setting: from TOML, the environment or a caller to the declared type, or an error.

Text is accepted for every type, since the environment has nothing else; names that end in ``_bytes``,
``_ms`` or ``_s`` (also before ``_max``, ``_min``) take quantities with units: ``64 MiB``, ``30 s``.
"""

from __future__ import annotations

import re
import types
import typing
from enum import Enum
from pathlib import Path
from typing import Any, Final

from headrace.errors import InvalidArgumentError
from headrace.model.quantities import parse_bytes, parse_duration_ms
from headrace.runtime.settings import type_text

_TRUE: Final = frozenset({"true", "yes", "on", "1"})
_FALSE: Final = frozenset({"false", "no", "off", "0"})
_UNIT: Final = re.compile(r"_(bytes|ms|s)(?:_(?:max|min|default))?$")


def parse_value(key: str, kind: Any, raw: Any) -> Any:
    """Return ``raw`` as a value of type ``kind``.

    Raises:
        InvalidArgumentError: naming key, value and the type that is wanted.
    """
    try:
        return _parse(key, kind, raw)
    except (ValueError, TypeError, OverflowError, InvalidArgumentError) as error:
        why = f": {error}" if isinstance(error, InvalidArgumentError) and str(error) else ""
        raise InvalidArgumentError(f"{key} = {raw!r} is not {type_text(kind)}{why}") from None


def _parse(key: str, kind: Any, raw: Any) -> Any:
    origin = typing.get_origin(kind)
    if origin in {typing.Union, types.UnionType}:
        return _parse_optional(key, kind, raw)
    if origin is typing.Literal:
        return _parse_choice(typing.get_args(kind), raw)
    if origin is tuple:
        return _parse_list(key, typing.get_args(kind)[0], raw)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(raw)
    if isinstance(raw, (str, Path)) and "\0" in str(raw):
        raise InvalidArgumentError("no name has a zero byte")
    if kind is Path and isinstance(raw, (str, Path)) and str(raw):
        return Path(raw)
    if kind is str and isinstance(raw, str):
        return raw
    if kind is bool:
        return _parse_bool(raw)
    if kind is int:
        return _parse_int(key, raw)
    if kind is float:
        return _parse_float(key, raw)
    raise ValueError


def _parse_optional(key: str, kind: Any, raw: Any) -> Any:
    if raw is None or (isinstance(raw, str) and raw.lower() in {"", "none"}):
        return None
    parts = [part for part in typing.get_args(kind) if part is not type(None)]
    assert len(parts) == 1  # "X | None" is the only union a setting may have
    return _parse(key, parts[0], raw)


def _parse_choice(choices: tuple[Any, ...], raw: Any) -> Any:
    for choice in choices:
        if raw == choice or (isinstance(raw, str) and raw == str(choice)):
            return choice
    raise ValueError


def _parse_list(key: str, kind: Any, raw: Any) -> tuple[Any, ...]:
    if isinstance(raw, str):
        raw = [part.strip() for part in raw.split(",") if part.strip()]
    if not isinstance(raw, (list, tuple)):
        raise TypeError
    return tuple(_parse(key, kind, part) for part in raw)


def _parse_bool(raw: Any) -> bool:
    if isinstance(raw, bool):
        return raw
    if isinstance(raw, str) and raw.lower() in _TRUE | _FALSE:
        return raw.lower() in _TRUE
    raise ValueError


def _parse_int(key: str, raw: Any) -> int:
    if isinstance(raw, int) and not isinstance(raw, bool):
        return raw
    if not isinstance(raw, str):
        raise TypeError
    if re.fullmatch(r"[+-]?[0-9][0-9_]*", raw.strip()):
        return int(raw)
    unit = _UNIT.search(key)
    if unit is None:
        raise ValueError
    if unit[1] == "bytes":
        return parse_bytes(raw)
    milliseconds = parse_duration_ms(raw)
    if unit[1] == "ms":
        return milliseconds
    if milliseconds % 1000:
        raise InvalidArgumentError("it is counted in whole seconds")
    return milliseconds // 1000


def _parse_float(key: str, raw: Any) -> float:
    if isinstance(raw, (int, float)) and not isinstance(raw, bool):
        return float(raw)
    if not isinstance(raw, str):
        raise TypeError
    try:
        return float(raw)
    except ValueError:
        unit = _UNIT.search(key)
        if unit is None or unit[1] == "bytes":
            raise
    milliseconds = parse_duration_ms(raw)
    return milliseconds / 1000 if unit[1] == "s" else float(milliseconds)
