"""Bytes of an event as people, or JSON, can show them. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

DECODINGS: Final = ("auto", "text", "json", "hex")


@dataclass(frozen=True, slots=True)
class Preview:
    """``encoding`` says what ``data`` is: text, json (a value) or hex."""

    encoding: str
    data: Any


def preview(data: bytes, decode: str, *, is_whole: bool = True) -> Preview:
    """Return ``data`` as ``decode`` asks; in hexadecimal what is not that. Half a letter at the end of a
    beginning is left out.
    """
    if decode == "hex":
        return Preview("hex", data.hex())
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        if is_whole or error.start < len(data) - 3 or error.reason != "unexpected end of data":
            return Preview("hex", data.hex())
        text = data[: error.start].decode()
    if decode == "text":
        return Preview("text", text)
    if is_whole:
        value = _json_of(text)
        if value is not None and (decode == "json" or isinstance(value, dict | list)):
            return Preview("json", value)
    printable = all(char.isprintable() or char in "\t\r\n" for char in text)
    return Preview("text", text) if printable else Preview("hex", data.hex())


def _json_of(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None


def _refuse(name: str) -> None:
    raise ValueError(name)
