"""Events as they are given to the command line: text, text behind a key or with one in it, or a JSON object.
Pure.

A JSON object has ``event`` (text) or ``event_base64`` (any bytes), and perhaps ``key``; what
``headrace event read --json`` prints is of this form, so that every event can be written back unchanged.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from headrace.errors import InvalidArgumentError
from headrace.limits import EVENT_BYTES_MAX

_MEMBERS: Final = ("event", "event_base64", "key", "segment", "segment_text", "offset")
"""The last three are where an event was read; they are not used."""


@dataclass(frozen=True, slots=True)
class GivenEvent:
    """One event; empty ones are left out by the caller, for the protocol has none."""

    data: bytes
    key: str | None


Parse = Callable[[bytes], GivenEvent]
"""Raises InvalidArgumentError, with a reason that fits behind "line 3"."""


def plain_events(key: str | None) -> Parse:
    """Return what takes all of a text as an event."""
    return lambda text: _checked(text, key)


def keyed_events(separator: bytes) -> Parse:
    """Return what takes an event from behind the first ``separator``; the text before it is the key.

    Raises:
        InvalidArgumentError: the separator is empty.
    """
    if not separator:
        raise InvalidArgumentError("the separator of keys is empty")

    def parse(text: bytes) -> GivenEvent:
        before, found, event = text.partition(separator)
        if not found and text:
            raise InvalidArgumentError(f"has no {separator.decode(errors='backslashreplace')!r} in it")
        return _checked(event, key_of(before))

    return parse


def json_events(key: str | None) -> Parse:
    """Return what takes an event from a JSON object; ``key`` is for those that name none."""

    def parse(text: bytes) -> GivenEvent:
        if not text.strip():
            return GivenEvent(b"", key)
        document = _object(text)
        unknown = next((name for name in document if name not in _MEMBERS), None)
        if unknown is not None:
            raise InvalidArgumentError(f"has the unknown member {unknown!r}; known are {', '.join(_MEMBERS)}")
        return _checked(_data_of(document), _member(document, "key", key))

    return parse


def field_keyed_events(field: str) -> Parse:
    """Return what takes all of a line as an event; its key is the value of a field of the JSON object in it.

    A string is the key as it is; a number or a truth value is the key as JSON writes it.
    """

    def parse(text: bytes) -> GivenEvent:
        if not text.strip():
            return GivenEvent(b"", None)
        value = _object(text).get(field)
        if isinstance(value, str):
            return _checked(text, value)
        if isinstance(value, bool | int | float):
            return _checked(text, json.dumps(value))
        found = f"has no field {field!r}" if value is None else f"has a {field!r} that is no string or number"
        raise InvalidArgumentError(found)

    return parse


def key_of(text: bytes) -> str:
    """Return bytes as a routing key. Those that are not UTF-8 keep their order too, each as its own key."""
    return text.decode(errors="surrogateescape")


def event_document(data: bytes) -> dict[str, str]:
    """Return an event as members of a JSON object, which :func:`json_events` reads back."""
    try:
        return {"event": data.decode()}
    except UnicodeDecodeError:
        return {"event_base64": base64.b64encode(data).decode()}


def _object(text: bytes) -> dict[str, Any]:
    try:
        document: Any = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidArgumentError("is not JSON") from None
    if not isinstance(document, dict):
        raise InvalidArgumentError("is no JSON object")
    return document


def _data_of(document: dict[str, Any]) -> bytes:
    text, encoded = _member(document, "event", None), _member(document, "event_base64", None)
    if (text is None) == (encoded is None):
        raise InvalidArgumentError("has to have either 'event' or 'event_base64'")
    try:
        return base64.b64decode(encoded, validate=True) if text is None else text.encode()
    except (binascii.Error, ValueError):  # ValueError: half a surrogate pair, or characters beyond ASCII
        kind = "base64" if text is None else "Unicode text"
        raise InvalidArgumentError(f"has an event that is no {kind}") from None


def _member(document: dict[str, Any], name: str, default: Any) -> Any:
    value = document.get(name)
    if value is None:
        return default
    if not isinstance(value, str):
        raise InvalidArgumentError(f"has a {name!r} that is no string")
    return value


def _checked(data: bytes, key: str | None) -> GivenEvent:
    if len(data) > EVENT_BYTES_MAX:
        raise InvalidArgumentError(
            f"has an event of {len(data)} bytes, larger than the limit of {EVENT_BYTES_MAX}"
        )
    return GivenEvent(data, key)
