"""Typed access to the options of one source or sink: a value, or one clear sentence. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headrace.errors import InvalidArgumentError, UnsupportedError
from headrace.model.policies import RetentionKind, RetentionPolicy
from headrace.model.quantities import parse_bytes, parse_duration_ms
from headrace.model.retention_text import parse_retention
from headrace.spark.option_aliases import translate
from headrace.spark.option_names import NOT_BUILT, Door, names_without_meaning

_MILLISECONDS: Final = "_ms"
_SIZES: Final = frozenset(
    {"batch_bytes", "approx_bytes_per_trigger", "default_segment_target_rate_bytes_per_sec"}
)

_HOW_TO_NAME: Final = (
    ', or a path: .load("scope/stream"). A table of the catalog (CREATE TABLE) gives its options to nobody: '
    "use CREATE TEMPORARY VIEW ... USING headrace OPTIONS (...), or SELECT ... FROM table WITH (...)"
)


class OptionReader:
    """Typed access to the options of one source or sink. Each method names the option in its error."""

    def __init__(self, options: Mapping[str, str], door: Door) -> None:
        self._values = translate({str(key).lower(): str(value) for key, value in options.items()})
        for name, reason in NOT_BUILT.items():
            if name in self._values:
                raise UnsupportedError(f"option {name}: {reason}")
        self.without_meaning = tuple(names_without_meaning(self._values, door))
        """Names that have no effect here."""

    def text(self, name: str, default: str = "") -> str:
        return self._values.get(name, default)

    def required(self, name: str) -> str:
        value = self._values.get(name, "")
        if not value:
            raise InvalidArgumentError(f"option {name} is required{_HOW_TO_NAME}")
        return value

    def flag(self, name: str, *, default: bool) -> bool:
        value = self._values.get(name)
        if value is None:
            return default
        if value.lower() not in {"true", "false"}:
            raise InvalidArgumentError(f"option {name} is true or false, not {value!r}")
        return value.lower() == "true"

    def number(self, name: str, default: int, *, low: int, high: int) -> int:
        """Return a whole number; if the name says a unit, also of a text with one: ``30s``, ``64 MiB``."""
        value = self._values.get(name)
        if value is None:
            return default
        number = _number(name, value)
        if not low <= number <= high:
            raise InvalidArgumentError(f"option {name} is {number}, allowed are {low} to {high}")
        return number

    def limit(self, name: str, *, high: int) -> int:
        """Return a number that bounds something, 0 if it is not given. A zero that is given is refused."""
        if self._values.get(name, "").strip().lower() == "none":
            return 0
        number = self.number(name, 0, low=0, high=high)
        if number == 0 and name in self._values:
            raise InvalidArgumentError(f"option {name} is 0: leaving it out, or 'none', is no limit")
        return number

    def retention(self, name: str, kind: RetentionKind) -> RetentionPolicy:
        """Return what is retained, a number alone in the unit that the name says; everything if not given."""
        value = self._values.get(name)
        if value is None:
            return RetentionPolicy.none()
        unit = "ms" if kind is RetentionKind.TIME else "B"
        text = f"{value} {unit}" if value.strip().isdecimal() else value
        try:
            return parse_retention(text, kind, words_for_none="leaving the option out")
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"option {name}: {error}") from None

    def choice(self, name: str, default: str, allowed: tuple[str, ...]) -> str:
        value = self._values.get(name, default).lower()
        if value not in allowed:
            raise InvalidArgumentError(f"option {name} is one of {', '.join(allowed)}, not {value!r}")
        return value


def _number(name: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        pass
    try:
        if name.endswith(_MILLISECONDS):
            return parse_duration_ms(value)
        if name in _SIZES:
            return parse_bytes(value)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"option {name}: {error}") from None
    raise InvalidArgumentError(f"option {name} is a whole number, not {value!r}")
