"""What turns values into the bytes of events and back.

Without a serializer an event is ``bytes``, or ``str`` that is written as UTF-8. ``"json"`` and ``"utf8"`` are
built in; any object with ``dumps`` and ``loads`` is one as well, such as the modules ``json``, ``pickle`` and
``orjson``.
"""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from datetime import date, time
from decimal import Decimal
from typing import Any, Final, Protocol, runtime_checkable
from uuid import UUID

from headrace.client.framing.event_frames import own_event
from headrace.errors import EventNotDecodedError, InvalidArgumentError


@runtime_checkable
class Serializer(Protocol):
    """Turns one value into bytes (or text, which becomes UTF-8), and the bytes of one event into a value."""

    def dumps(self, value: Any, /) -> bytes | str: ...

    def loads(self, data: bytes, /) -> Any: ...


class _Json:
    """JSON without blanks, in UTF-8. What is no JSON, such as NaN, is refused.

    Dates and times become text in ISO 8601, a ``Decimal`` and a ``UUID`` their digits as text, data classes
    objects. They are read as what they became.
    """

    def dumps(self, value: Any, /) -> str:
        return json.dumps(
            value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_json_value
        )

    def loads(self, data: bytes, /) -> Any:
        return json.loads(data)


def _json_value(value: Any) -> Any:
    """Return what JSON has for a value of another type.

    Raises:
        TypeError: it has nothing for it.
    """
    if isinstance(value, date | time):  # a datetime is a date
        return value.isoformat()
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise TypeError(f"JSON has no {value}")
        return str(value)
    if isinstance(value, UUID):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    raise TypeError(f"JSON has no {type(value).__name__}")


class _Utf8:
    """Texts."""

    def dumps(self, value: Any, /) -> str:
        if not isinstance(value, str):
            raise TypeError(f"{type(value).__name__} is no str")
        return value

    def loads(self, data: bytes, /) -> str:
        return data.decode()


_BUILT_IN: Final[dict[str, Serializer]] = {"json": _Json(), "utf8": _Utf8()}


class Codec:
    """A serializer under the name that errors give it."""

    __slots__ = ("_dumps", "_loads", "name")

    def __init__(self, name: str, serializer: Serializer) -> None:
        self.name = name
        self._dumps = serializer.dumps
        self._loads = serializer.loads

    def encode(self, value: Any) -> bytes:
        """Return the bytes of a value.

        Raises:
            InvalidArgumentError: the serializer does not take it, or does not make bytes of it.
        """
        try:
            data: object = self._dumps(value)
        except Exception as error:  # whatever a serializer raises
            raise InvalidArgumentError(
                f"{self.name} takes no such {type(value).__name__}: {error}"
            ) from error
        return own_event(data)

    def decode(self, data: bytes, where: str, segment_id: int, offset: int) -> Any:
        """Return the value of an event.

        Raises:
            EventNotDecodedError: the serializer does not take it.
        """
        try:
            return self._loads(data)
        except Exception as error:  # whatever a serializer raises
            raise EventNotDecodedError(where, segment_id, offset, f"no {self.name}: {error}") from error

    def __repr__(self) -> str:
        return self.name


def find_codec(serializer: Serializer | str | None) -> Codec | None:
    """Return what ``serializer`` names; None for None.

    Raises:
        InvalidArgumentError: there is none of this name, or it lacks ``dumps`` or ``loads``.
    """
    if serializer is None:
        return None
    if isinstance(serializer, str):
        found = _BUILT_IN.get(serializer)
        if found is None:
            known = " and ".join(map(repr, _BUILT_IN))
            raise InvalidArgumentError(
                f"no serializer is called {serializer!r}: {known} are, and any object with dumps and loads"
            )
        return Codec(serializer, found)
    if not isinstance(serializer, Serializer):
        raise InvalidArgumentError(f"{serializer!r} is no serializer: it has no dumps, or no loads")
    return Codec(getattr(serializer, "__name__", type(serializer).__name__), serializer)
