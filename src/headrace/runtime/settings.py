"""Settings as frozen dataclasses whose fields declare default, range, meaning and what simulation may choose.

    @dataclass(frozen=True, slots=True, kw_only=True)
    class DurableLogConfig:
        "How one container batches operations into the WAL."

        frame_bytes_max: int = tunable(
            1 * MIB, low=1 * KIB, high=8 * MIB, simulate=(1 * KIB, 4 * KIB),
            help="A data frame is written when it holds this many bytes.",
        )

    @dataclass(frozen=True, slots=True, kw_only=True)
    class SegmentStoreConfig:
        durable_log: DurableLogConfig = field(default_factory=DurableLogConfig)

One declaration feeds loading (``settings_sources.load``), the reference page (``describe``) and the simulator
(``testing.simulated_settings``). Settings are values that can be printed; clocks, stores and pools are
components and are passed to constructors. A class may add ``check(self)`` for relations between fields; it
raises InvalidArgumentError.

Constructing a class directly checks nothing: a test may want a frame of 64 bytes. ``validate`` does.

A value that no operator would change is ``internal``: tests and simulation choose it like a setting, but it
is not read from any source and not on the reference page.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from headrace.errors import InvalidArgumentError

V = TypeVar("V")

_TUNABLE: Final = "headrace.tunable"


@dataclass(frozen=True, slots=True)
class Tunable:
    """What a field declares about itself."""

    low: Any = None
    high: Any = None
    simulate: tuple[Any, ...] = ()
    help: str = ""
    secret: bool = False
    internal: bool = False


@dataclass(frozen=True, slots=True)
class Setting:
    """One leaf of a tree of settings, as ``walk`` meets it."""

    key: str
    """Dotted path, as in TOML: ``segmentstore.durable_log.frame_bytes_max``."""

    type: Any
    default: Any
    tunable: Tunable

    def variable(self, prefix: str) -> str:
        """Return the name of its environment variable."""
        return f"{prefix}_" + self.key.replace(".", "__").upper()


def tunable(
    default: V,
    *,
    low: Any = None,
    high: Any = None,
    simulate: Sequence[V] = (),
    help: str = "",  # noqa: A002 - the reader's word
    secret: bool = False,
) -> V:
    """Declare a setting: its default, inclusive range, what simulation may choose instead, and its meaning.

    A ``secret`` is never printed.
    """
    declared = Tunable(low, high, tuple(simulate), help, secret)
    value: V = dataclasses.field(default=default, metadata={_TUNABLE: declared})
    return value


def internal(default: V, *, simulate: Sequence[V] = (), help: str = "") -> V:  # noqa: A002 - as above
    """Declare a value that is no setting: its default, what simulation may choose instead, its meaning."""
    declared = Tunable(simulate=tuple(simulate), help=help, internal=True)
    value: V = dataclasses.field(default=default, metadata={_TUNABLE: declared})
    return value


def is_section(kind: Any) -> bool:
    """Say whether the type of a field is a nested group of settings."""
    return isinstance(kind, type) and dataclasses.is_dataclass(kind)


def fields_of(cls: type[Any]) -> Iterator[tuple[dataclasses.Field[Any], Any]]:
    """Yield the fields of one settings class with their resolved types: plain ones first, as in TOML."""
    hints = typing.get_type_hints(cls)
    for declared in sorted(dataclasses.fields(cls), key=lambda each: is_section(hints[each.name])):
        yield declared, hints[declared.name]


def tunable_of(declared: dataclasses.Field[Any]) -> Tunable:
    """Return what the field declared; a plain field has no range."""
    found: Tunable = declared.metadata.get(_TUNABLE, Tunable())
    return found


def walk(cls: type[Any], prefix: str = "") -> Iterator[Setting]:
    """Yield every setting below ``cls``, of each class in the order of declaration."""
    for declared, kind in fields_of(cls):
        key = f"{prefix}{declared.name}"
        if is_section(kind):
            yield from walk(kind, f"{key}.")
        elif not tunable_of(declared).internal:
            yield Setting(key, kind, _default_of(declared), tunable_of(declared))


def flatten(config: Any, prefix: str = "") -> dict[str, Any]:
    """Return every setting of ``config`` by dotted key; secrets are masked."""
    values: dict[str, Any] = {}
    for declared, kind in fields_of(type(config)):
        value = getattr(config, declared.name)
        key = f"{prefix}{declared.name}"
        if is_section(kind):
            values.update(flatten(value, f"{key}."))
        elif not tunable_of(declared).internal:
            values[key] = "***" if tunable_of(declared).secret and value else value
    return values


def validate(config: Any, prefix: str = "") -> None:
    """Check ranges and relations of every setting.

    Raises:
        InvalidArgumentError: naming key, value and range.
    """
    for declared, kind in fields_of(type(config)):
        value = getattr(config, declared.name)
        if is_section(kind):
            validate(value, f"{prefix}{declared.name}.")
        else:
            check_range(f"{prefix}{declared.name}", value, tunable_of(declared))
    _check_relations(config)


def check_range(key: str, value: Any, declared: Tunable) -> None:
    """Check one value against its declared range.

    Raises:
        InvalidArgumentError: naming key, value and range.
    """
    if value is None:
        return  # only an optional setting can be None
    below = declared.low is not None and not value >= declared.low  # NaN is on no side
    above = declared.high is not None and not value <= declared.high
    if below or above:
        raise InvalidArgumentError(f"{key} = {value!r} is outside {range_text(declared)}")


def range_text(declared: Tunable) -> str:
    """Return the range in words, empty if there is none."""
    if declared.low is not None and declared.high is not None:
        return f"[{declared.low}, {declared.high}]"
    if declared.low is not None:
        return f">= {declared.low}"
    if declared.high is not None:
        return f"<= {declared.high}"
    return ""


def describe(cls: type[Any], *, title: str = "Settings", variable_prefix: str = "HEADRACE") -> str:
    """Return the reference page of ``cls`` in Markdown: one table per section, one row per setting."""
    lines = [f"# {title}", ""]
    _describe_section(cls, "", variable_prefix, lines)
    return "\n".join(lines).rstrip() + "\n"


def type_text(kind: Any) -> str:
    """Return the type of a setting as people write it."""
    if kind is type(None):
        return "none"
    origin = typing.get_origin(kind)
    if origin is typing.Literal:
        return " or ".join(repr(choice) for choice in typing.get_args(kind))
    if origin in {typing.Union, types.UnionType}:
        return " or ".join(type_text(part) for part in typing.get_args(kind))
    if origin is tuple:
        return f"list of {type_text(typing.get_args(kind)[0])}"
    name: str = kind.__name__
    return name


# ------------------------------------------------------------------------------------------ inside


def _default_of(declared: dataclasses.Field[Any]) -> Any:
    if declared.default_factory is not dataclasses.MISSING:
        return declared.default_factory()
    assert declared.default is not dataclasses.MISSING  # an empty file is a legal configuration
    return declared.default


def _check_relations(config: Any) -> None:
    check = getattr(config, "check", None)
    if check is not None:
        check()


def _describe_section(cls: type[Any], prefix: str, variable_prefix: str, lines: list[str]) -> None:
    leaves = [
        (declared, kind)
        for declared, kind in fields_of(cls)
        if not is_section(kind) and not tunable_of(declared).internal
    ]
    if prefix:
        lines += [f"## `{prefix.rstrip('.')}`", ""]
    if cls.__doc__ and not cls.__doc__.startswith(f"{cls.__name__}("):  # dataclass writes a signature there
        lines += [" ".join(cls.__doc__.split()), ""]
    if leaves:
        lines += ["| Setting | Type | Default | Range | Meaning | Environment |", "|---|---|---|---|---|---|"]
    for declared, kind in leaves:
        about = tunable_of(declared)
        setting = Setting(f"{prefix}{declared.name}", kind, _default_of(declared), about)
        shown = _cell(_default_text(setting.default)), _cell(range_text(about)), _cell(about.help)
        variable = f"`{setting.variable(variable_prefix)}`"
        lines.append(f"| `{declared.name}` | {_cell(type_text(kind))} | {' | '.join(shown)} | {variable} |")
    if leaves:
        lines.append("")
    for declared, kind in fields_of(cls):
        if is_section(kind) and any(walk(kind)):
            _describe_section(kind, f"{prefix}{declared.name}.", variable_prefix, lines)


def _default_text(value: Any) -> str:
    if value is None or value in ((), ""):
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ", ".join(str(part) for part in value)
    return str(value)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
