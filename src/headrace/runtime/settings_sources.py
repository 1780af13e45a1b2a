"""Loads settings from a TOML file, then the environment, then explicit overrides; unknown ones are refused.

    data_dir = "/var/lib/headrace"

    [segmentstore.durable_log]
    frame_bytes_max = "256 KiB"

The same in the environment: ``HEADRACE_SEGMENTSTORE__DURABLE_LOG__FRAME_BYTES_MAX=262144``. Every variable
with our prefix names a setting, but for those that the caller lists, and those that Kubernetes makes for a
service whose name begins like the prefix.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
import tomllib
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from headrace.errors import InvalidArgumentError
from headrace.runtime.setting_values import parse_value
from headrace.runtime.settings import Setting, check_range, fields_of, is_section, validate, walk

C = TypeVar("C")

#: A settings file larger than this is some other file.
_FILE_BYTES_MAX: Final = 1 << 20

_SUGGESTIONS_MAX: Final = 8

_SERVICE_LINK: Final = re.compile(
    r"\w+_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)=.*"
    r"|\w+_PORT=(tcp|udp|sctp)://.*",
    re.DOTALL,
)
"""What Kubernetes puts into the environment of each process for each service beside it."""


def load(
    cls: type[C],
    *,
    file: Path | str | None = None,
    environment: Mapping[str, str] | None = None,
    overrides: Mapping[str, Any] | None = None,
    variable_prefix: str = "HEADRACE",
    other_variables: Collection[str] = (),
) -> C:
    """Return the configuration that file, environment and overrides (dotted keys) describe; later ones win.

    Args:
        cls: the root of the settings.
        file: TOML; it must exist if it is given.
        environment: usually ``os.environ``.
        overrides: usually from the command line; None as a value means "not given".
        variable_prefix: what the names of environment variables start with.
        other_variables: names that start like that and are no settings.

    Raises:
        InvalidArgumentError: naming source and key (or variable), and value and range or the keys that exist.
    """
    known = {setting.key: setting for setting in walk(cls)}
    values: dict[str, Any] = {}
    if file is not None:
        _merge(values, known, _read_file(Path(file), cls), f"in {file}")
    if environment is not None:
        given = _from_environment(_own(environment, other_variables), known, variable_prefix)
        _merge(values, known, given, "in the environment")
    if overrides is not None:
        given = {key: value for key, value in overrides.items() if value is not None}
        _merge(values, known, given, "given explicitly")
    config = _build(cls, "", values)
    validate(config)
    return config


def find_sources(
    cls: type[Any],
    *,
    file: Path | str | None,
    environment: Mapping[str, str],
    variable_prefix: str = "HEADRACE",
    other_variables: Collection[str] = (),
) -> dict[str, str]:
    """Return by key where each setting that has not its default comes from: the name of a variable, or "" for
    the file. Raises as :func:`load`.
    """
    known = {setting.key: setting for setting in walk(cls)}
    given = _from_environment(_own(environment, other_variables), known, variable_prefix)
    found = {} if file is None else dict.fromkeys(_read_file(Path(file), cls), "")
    return found | {key: known[key].variable(variable_prefix) for key in given}


def find_problems(cls: type[Any], file: Path | str) -> list[tuple[str, str]]:
    """Return what is wrong in a file: the key it is about, or "", and a sentence.

    Raises:
        InvalidArgumentError: the file cannot be read, or is no TOML.
    """
    known = {setting.key: setting for setting in walk(cls)}
    values: dict[str, Any] = {}
    problems: list[tuple[str, str]] = []
    for key, raw in _read_file(Path(file), cls).items():
        found: dict[str, Any] = {}
        try:
            _merge(found, known, {key: raw}, "here")
        except InvalidArgumentError as error:
            problems.append((key, str(error).removesuffix(" (here)")))
        else:
            values |= found
    try:
        validate(_build(cls, "", values))
    except InvalidArgumentError as error:
        problems.append(("", str(error)))
    return problems


def _own(environment: Mapping[str, str], other_variables: Collection[str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name not in other_variables}


def _merge(values: dict[str, Any], known: Mapping[str, Setting], new: Mapping[str, Any], where: str) -> None:
    for key, raw in new.items():
        setting = known.get(key)
        if setting is None:
            raise InvalidArgumentError(f"unknown setting {key!r} {where}{_suggestion(key, known)}")
        try:
            values[key] = parse_value(key, setting.type, raw)
            check_range(key, values[key], setting.tunable)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"{error} ({where})") from None


def _suggestion(key: str, known: Mapping[str, Setting]) -> str:
    near = _find_near(key, known)
    return f"; known are {', '.join(near)}" if near else ""


def _find_near(key: str, known: Iterable[str]) -> list[str]:
    """Return the keys whose last word is the same, or that are spelt alike, or those of the same section."""
    section, _, last = key.rpartition(".")
    near = sorted(name for name in known if name.rpartition(".")[2] == last)
    near = near or difflib.get_close_matches(key, known, _SUGGESTIONS_MAX, 0.8)
    near = near or sorted(name for name in known if name.rpartition(".")[0] == section)
    return near[:_SUGGESTIONS_MAX]


def _read_file(path: Path, cls: type[Any]) -> dict[str, Any]:
    try:
        with path.open("rb") as stream:
            text = stream.read(_FILE_BYTES_MAX + 1)
    except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
        raise InvalidArgumentError(f"cannot read settings: {error}") from None
    if len(text) > _FILE_BYTES_MAX:
        raise InvalidArgumentError(f"{path} exceeds {_FILE_BYTES_MAX} bytes: this is no settings file")
    try:
        tree = tomllib.loads(text.decode())
    except (ValueError, RecursionError) as error:  # no TOML, no UTF-8, a date or a depth that cannot be
        raise InvalidArgumentError(f"{path}: {error}") from None
    values: dict[str, Any] = {}
    _flatten_tree(tree, cls, "", values, path)
    return values


def _flatten_tree(
    tree: Mapping[str, Any], cls: type[Any], prefix: str, values: dict[str, Any], path: Path
) -> None:
    """Turn nested tables into dotted keys; a table where a value belongs, or the reverse, is refused."""
    sections = {declared.name: kind for declared, kind in fields_of(cls) if is_section(kind)}
    for name, value in tree.items():
        key = f"{prefix}{name}"
        if name not in sections:
            values[key] = value
        elif isinstance(value, dict):
            _flatten_tree(value, sections[name], f"{key}.", values, path)
        else:
            raise InvalidArgumentError(f"{key} in {path} is a section: write [{key}]")


def _from_environment(
    environment: Mapping[str, str], known: Mapping[str, Setting], prefix: str
) -> dict[str, str]:
    by_variable = {setting.variable(prefix): key for key, setting in known.items()}
    values: dict[str, str] = {}
    for variable, value in sorted(environment.items()):
        if not variable.startswith(f"{prefix}_") or _SERVICE_LINK.fullmatch(f"{variable}={value}"):
            continue
        if variable not in by_variable:
            key = variable.removeprefix(f"{prefix}_").replace("__", ".").lower()
            near = ", ".join(known[name].variable(prefix) for name in _find_near(key, known))
            suggestion = f"; known are {near}" if near else ""
            raise InvalidArgumentError(f"{variable} in the environment is no setting{suggestion}")
        values[by_variable[variable]] = value
    return values


def _build(cls: type[C], prefix: str, values: Mapping[str, Any]) -> C:
    arguments: dict[str, Any] = {}
    for declared, kind in fields_of(cls):
        key = f"{prefix}{declared.name}"
        if is_section(kind):
            arguments[declared.name] = _build(kind, f"{key}.", values)
        elif key in values:
            arguments[declared.name] = values[key]
    assert dataclasses.is_dataclass(cls)
    return cls(**arguments)
