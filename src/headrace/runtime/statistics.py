"""Converts results of ``statistics()`` of any class into JSON values, within bounds."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

ITEMS_MAX: Final = 1100
"""Members of one mapping or list that are shown; what is left out is counted."""
TEXT_CHARS_MAX: Final = 1000
_DEPTH_MAX: Final = 12


def plain_values(value: object, depth: int = 0) -> Any:
    """Return ``value`` as dicts, lists, numbers, strings and None.

    Dataclasses become their fields, enums their names, bytes hex; what is none of these becomes its text.
    """
    if isinstance(value, Enum):
        return value.name
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if abs(value) < float("inf") else str(value)
    if isinstance(value, str):
        return value[:TEXT_CHARS_MAX]
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value[: TEXT_CHARS_MAX // 2]).hex()
    if depth >= _DEPTH_MAX:
        return str(value)[:TEXT_CHARS_MAX]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        items = list(value.items())
        found = {str(key): plain_values(item, depth + 1) for key, item in items[:ITEMS_MAX]}
        if len(items) > ITEMS_MAX:
            found["left_out"] = len(items) - ITEMS_MAX
        return found
    if isinstance(value, list | tuple | set | frozenset):
        members = [plain_values(item, depth + 1) for item in list(value)[:ITEMS_MAX]]
        if len(value) > ITEMS_MAX:
            members.append(f"{len(value) - ITEMS_MAX} left out")
        return members
    return str(value)[:TEXT_CHARS_MAX]
