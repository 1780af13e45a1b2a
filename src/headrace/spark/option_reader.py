"""Typed access to the options of one source or sink: a value, or one clear sentence. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headrace.errors import InvalidArgumentError, UnsupportedError
from headrace.spark.option_aliases import translate
from headrace.spark.option_names import NOT_BUILT, Door, names_without_meaning

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
        value = self._values.get(name)
        if value is None:
            return default
        try:
            number = int(value)
        except ValueError:
            raise InvalidArgumentError(f"option {name} is a whole number, not {value!r}") from None
        if not low <= number <= high:
            raise InvalidArgumentError(f"option {name} is {number}, allowed are {low} to {high}")
        return number

    def choice(self, name: str, default: str, allowed: tuple[str, ...]) -> str:
        value = self._values.get(name, default).lower()
        if value not in allowed:
            raise InvalidArgumentError(f"option {name} is one of {', '.join(allowed)}, not {value!r}")
        return value
