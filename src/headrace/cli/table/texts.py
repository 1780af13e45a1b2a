"""Keys and values of tables as words of the command line and as members of JSON objects. Pure.

A key is one word: its secondary part follows the primary one directly, since both have fixed lengths.
"""

from __future__ import annotations

import base64
from typing import Any

from headrace.errors import InvalidArgumentError
from headrace.model.key_value_table import KeyValueTableConfiguration


def bytes_of(word: str, *, is_hex: bool) -> bytes:
    """Return the bytes that a word stands for, or names with hexadecimal digits.

    Raises:
        InvalidArgumentError: the digits are none.
    """
    if not is_hex:
        return word.encode(errors="surrogateescape")
    try:
        return bytes.fromhex(word)
    except ValueError:
        raise InvalidArgumentError(
            f"{word!r} has other characters than pairs of hexadecimal digits"
        ) from None


def key_of(data: bytes, configuration: KeyValueTableConfiguration) -> Any:
    """Return a whole key as the client takes it.

    Raises:
        InvalidArgumentError: it has not the length of the table's keys.
    """
    primary, secondary = configuration.primary_key_bytes, configuration.secondary_key_bytes
    if len(data) != primary + secondary:
        parts = f" ({primary} of the primary key, {secondary} of the secondary key)" if secondary else ""
        raise InvalidArgumentError(
            f"a key of this table has {primary + secondary} bytes{parts}, not {len(data)}"
        )
    return (data[:primary], data[primary:]) if secondary else data


def whole_key(key: Any) -> bytes:
    """Return the inverse of :func:`key_of`."""
    return key if isinstance(key, bytes) else b"".join(key)


def shown(data: bytes, *, is_hex: bool) -> str:
    """Return a key as the word that :func:`bytes_of` reads back, if it can be printed."""
    return data.hex() if is_hex else data.decode(errors="backslashreplace")


def member(name: str, data: bytes) -> dict[str, str]:
    """Return bytes as a member of a JSON object: as text, or in base64 under a name that says so."""
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}
