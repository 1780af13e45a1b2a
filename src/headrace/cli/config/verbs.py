"""What ``headrace config`` prints: the settings of a server, and what is wrong with a file of them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from headrace.cli.config.setting_lines import find_lines
from headrace.cli.output import print_json, print_line, printable
from headrace.cli.streamed_columns import StreamedColumns
from headrace.errors import InvalidArgumentError
from headrace.processes.config import StandaloneConfig
from headrace.runtime import settings_sources
from headrace.runtime.client_variables import CLIENT_VARIABLES
from headrace.runtime.settings import flatten


def show_config(*, file: str | None, changed: bool, as_json: bool) -> None:
    """Print every setting, its value and where it comes from; only those that are ``changed``, if so asked.

    Raises:
        InvalidArgumentError: a setting is wrong.
    """
    values = flatten(
        settings_sources.load(
            StandaloneConfig, file=file, environment=os.environ, other_variables=CLIENT_VARIABLES
        )
    )
    sources = settings_sources.find_sources(
        StandaloneConfig, file=file, environment=os.environ, other_variables=CLIENT_VARIABLES
    )
    lines = {} if file is None else _lines_of(file)
    rows: list[tuple[str, Any, str]] = []
    for key, value in values.items():
        variable = sources.get(key)
        if variable is None and changed:
            continue
        origin = "default" if variable is None else variable or _place(str(file), lines.get(key))
        rows.append((key, value, origin))
    if as_json:
        print_json([{"setting": key, "value": value, "source": origin} for key, value, origin in rows])
        return
    table = StreamedColumns(("SETTING", "VALUE", "FROM"))
    for key, value, origin in rows:
        table.add(key, _text(value), origin)
    table.close()


def check_config(*, file: str, as_json: bool) -> None:
    """Print what is wrong with a settings file, a line for each.

    Raises:
        InvalidArgumentError: something is.
    """
    problems = settings_sources.find_problems(StandaloneConfig, file)
    lines = _lines_of(file)
    if as_json:
        found = [
            {"setting": key or None, "line": lines.get(key), "problem": problem} for key, problem in problems
        ]
        print_json({"file": file, "problems": found})
    else:
        for key, problem in problems:
            print_line(printable(f"{_place(file, lines.get(key))}: {problem}"))
    if problems:
        count = f"{len(problems)} problem" + "s" * (len(problems) != 1)
        raise InvalidArgumentError(f"{file} has {count}: a server would not start with it")
    if not as_json:
        print_line(f"{printable(file)} is right")


def _lines_of(file: str) -> dict[str, int]:
    return find_lines(Path(file).read_text(encoding="utf-8"))


def _place(file: str, line: int | None) -> str:
    return file if line is None else f"{file}:{line}"


def _text(value: object) -> str:
    if value is None or value in ("", ()):
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return str(value)
