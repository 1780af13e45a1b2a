"""Events as they are given to the command line: text, text behind a key or with one in it, or a JSON object.
Pure.

A JSON object has ``event`` (text) or ``event_base64`` (any bytes), and perhaps ``key``; that of a record has
``time`` and ``headers`` as well. What ``headrace event read --json`` prints is of this form, so that every
event can be written back unchanged.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from headrace.errors import InvalidArgumentError
from headrace.limits import MIB
from headrace.runtime.times import milliseconds_of

EVENT_MAX: Final = 256 * MIB
"""Bytes of one event: a reader takes so many without being told."""

_MEMBERS: Final = (
    *("event", "event_base64", "key", "key_base64", "time", "headers", "headers_base64"),
    *("segment", "segment_text", "offset"),
)
"""The last three are where an event was read; they are not used."""


@dataclass(frozen=True, slots=True)
class GivenEvent:
    """One event; empty ones are left out by the caller, for the protocol has none, but for records."""

    data: bytes
    key: str | None
    time_ms: int | None = None
    """Of a record, as the headers."""
    headers: Mapping[str, bytes] | None = None

    @property
    def is_nothing(self) -> bool:
        """Nobody said an event."""
        return not self.data and self.time_ms is None


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
        encoded_key = _member(document, "key_base64", None)
        if encoded_key is not None:
            found = key_of(_decoded(encoded_key, "a key"))
        else:
            found = _member(document, "key", key)
        return _checked(_data_of(document), found, _time_of(document), _headers_of(document))

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
    return _document("event", data)


def record_document(time: str, key: bytes | None, headers: Mapping[str, bytes]) -> dict[str, Any]:
    """Return what a record has beside its value as members of a JSON object."""
    document: dict[str, Any] = {"time": time}
    if key is not None:
        document |= _document("key", key)
    for name, value in headers.items():
        for member, text in _document("headers", value).items():
            document.setdefault(member, {})[name] = text
    return document


def _document(member: str, data: bytes) -> dict[str, str]:
    try:
        return {member: data.decode()}
    except UnicodeDecodeError:
        return {f"{member}_base64": base64.b64encode(data).decode()}


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
    return _decoded(encoded, "an event") if text is None else _encoded(text, "an event")


def _encoded(text: str, what: str) -> bytes:
    try:
        return text.encode()
    except ValueError:  # half a surrogate pair
        raise InvalidArgumentError(f"has {what} that is no Unicode text") from None


def _decoded(text: str, what: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):  # ValueError: characters beyond ASCII
        raise InvalidArgumentError(f"has {what} that is no base64") from None


def _time_of(document: dict[str, Any]) -> int | None:
    value = document.get("time")
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    try:
        return milliseconds_of(datetime.fromisoformat(value))
    except (TypeError, ValueError, OverflowError, OSError):
        raise InvalidArgumentError("has a 'time' that is no text in ISO 8601 and no milliseconds") from None


def _headers_of(document: dict[str, Any]) -> dict[str, bytes] | None:
    found: dict[str, bytes] = {}
    for member, decode in (("headers", _encoded), ("headers_base64", _decoded)):
        given = document.get(member)
        if given is None:
            continue
        if not isinstance(given, dict) or not all(isinstance(text, str) for text in given.values()):
            raise InvalidArgumentError(f"has {member!r} that are no object of strings")
        found |= {name: decode(text, "a header") for name, text in given.items()}
    return found or None


def _member(document: dict[str, Any], name: str, default: Any) -> Any:
    value = document.get(name)
    if value is None:
        return default
    if not isinstance(value, str):
        raise InvalidArgumentError(f"has a {name!r} that is no string")
    return value


def _checked(
    data: bytes, key: str | None, time_ms: int | None = None, headers: Mapping[str, bytes] | None = None
) -> GivenEvent:
    if len(data) > EVENT_MAX:
        raise InvalidArgumentError(f"has an event of {len(data)} bytes, larger than the limit of {EVENT_MAX}")
    return GivenEvent(data, key, time_ms, headers)
