"""Settings as the simulator draws them: each simulation has its own configuration.

Each setting declares what it may be instead of its default (``simulate`` of ``runtime.settings.tunable``).
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

from headrace.errors import InvalidArgumentError
from headrace.runtime.entropy import Entropy
from headrace.runtime.settings import check_range, fields_of, is_section, tunable_of, validate, walk

C = TypeVar("C")

#: How many times the simulator draws before it says that ``check`` can hardly be satisfied.
_DRAWS_MAX: Final = 200


def simulated(cls: type[C], entropy: Entropy) -> C:
    """Draw a random legal configuration: each setting keeps its default or takes one of its ``simulate``
    values.

    Raises:
        InvalidArgumentError: a ``simulate`` value is outside its range, or ``check`` refuses nearly every
        draw.
    """
    refusal: InvalidArgumentError | None = None
    for _ in range(_DRAWS_MAX):
        config = _draw(cls, entropy)
        _check_ranges_of(config)
        try:
            validate(config)
        except InvalidArgumentError as error:
            refusal = error
            continue
        return config
    raise InvalidArgumentError(f"no legal {cls.__name__} in {_DRAWS_MAX} draws: {refusal}")


def _check_ranges_of(config: Any) -> None:
    """Refuse at once what no further draw could mend: a default or ``simulate`` value outside its range."""
    for setting in walk(type(config)):
        for value in (setting.default, *setting.tunable.simulate):
            check_range(setting.key, value, setting.tunable)


def _draw(cls: type[C], entropy: Entropy) -> C:
    values: dict[str, Any] = {}
    for declared, kind in fields_of(cls):
        if is_section(kind):
            values[declared.name] = _draw(kind, entropy)
        elif choices := tunable_of(declared).simulate:
            drawn = entropy.randbelow(len(choices) + 1)
            if drawn:
                values[declared.name] = choices[drawn - 1]
    return cls(**values)
