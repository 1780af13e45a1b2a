"""Deciding code does no I/O: a module is pure, or a driver that ``drivers.py`` lists with a reason."""

import ast
import re
from functools import cache

import pytest

from tests.tidy.drivers import DRIVERS, PURE
from tests.tidy.source_tree import imported_by, module_of, modules, tree_of

WORLD = {
    *("asyncio", "concurrent", "select", "selectors", "threading", "queue", "multiprocessing", "subprocess"),
    *("os", "pathlib", "shutil", "tempfile", "glob", "fcntl", "mmap", "ctypes", "resource", "signal", "gc"),
    *("socket", "ssl", "http", "urllib.request", "getpass", "time", "random", "secrets"),
    *("grpc", "starlette", "uvicorn", "uvloop", "opendal", "hdfs_native"),
}
"""Modules that touch loops, threads, processes, files, memory of the system, networks, clocks or chance."""


def is_of_world(name):
    return any(name == each or name.startswith(f"{each}.") for each in WORLD)


def run_time_imports(path):
    """Return the names that a file imports when it runs, in functions too: blocks for types only do not."""
    return imported_by(tree_of(path), with_types=False)


def drivers_of(names_by_module, owner):
    """Return the modules that import something of the world, or one that does, each with what that is.

    Args:
        names_by_module: what each module imports.
        owner: tells which of the modules an imported name belongs to, if any.
    """
    of_world = {module: sorted(filter(is_of_world, names)) for module, names in names_by_module.items()}
    found = {module: names[0] for module, names in of_world.items() if names}
    users = {}
    for module, names in names_by_module.items():
        for name in names:
            users.setdefault(owner(name), set()).add(module)
    todo = list(found)
    while todo:
        driver = todo.pop()
        new = users.get(driver, set()) - found.keys()
        found |= dict.fromkeys(new, driver)
        todo += new
    return found


@cache
def present():
    """Return what makes each module a driver, by the name that a table has for it; None: it is pure."""
    product = {module: path for module, path in modules().items() if module.startswith("headrace.")}
    drivers = drivers_of({module: run_time_imports(path) for module, path in product.items()}, module_of)
    found = {}
    for module, path in product.items():
        if path.name != "__init__.py":
            found[module.removeprefix("headrace.")] = drivers.get(module)
        elif module in drivers:  # what is in a package may do I/O, though its docstring does not
            found[f"{module}.__init__".removeprefix("headrace.")] = drivers[module]
    return found


def entry_of(name, entries):
    """Return the entry that is about a module: its own, or that of the nearest package around it."""
    while name and name not in entries:
        name = name.rpartition(".")[0]
    return name


def problems(found, drivers, pure):
    """Yield what the tables say otherwise than the source."""
    entries = {*drivers, *pure}
    used = set()
    for name, cause in found.items():
        entry = entry_of(name, entries)
        used.add(entry)
        if cause and entry not in drivers:
            yield f"{name} does I/O, as it imports {cause}: make it pure, or list it in DRIVERS with a reason"
        elif not cause and entry == name in drivers:
            yield f"{name} is pure now: take it off DRIVERS"
        elif not cause and entry in drivers:
            yield f"{name} is pure among drivers: protect it in PURE"
    for entry in sorted(entries):
        around = entry_of(entry.rpartition(".")[0], entries)
        if entry not in used:
            yield f"{entry} is gone: take it off the table"
        elif (entry in drivers) == (around in drivers):
            yield f"{entry} says the same as {around or 'the rule'}: take it off the table"


def test_every_module_is_pure_or_listed_as_a_driver_and_no_other_is_listed():
    told = list(problems(present(), DRIVERS, PURE))
    assert told == [], "\n".join(told)


def test_no_plan_and_no_format_is_a_driver():
    listed = [
        name
        for name, is_driver in present().items()
        if is_driver and name.endswith(("_plan", "_format")) and not name.startswith("testing.")
    ]
    assert listed == []


def says_it_is_pure(docstring):
    return re.search(r"\bPure\.(\s|$)", docstring) is not None


def test_what_says_that_it_is_pure_is():
    docstrings = {
        name: ast.get_docstring(tree_of(modules()[f"headrace.{name}".removesuffix(".__init__")]))
        for name, is_driver in present().items()
        if is_driver
    }
    assert [name for name, text in docstrings.items() if says_it_is_pure(text or "")] == []


def test_the_drivers_are_sorted_and_have_reasons():
    assert list(DRIVERS) == sorted(DRIVERS)
    assert all(0 < len(reason.split()) < 12 for reason in DRIVERS.values())


@pytest.mark.parametrize(
    ("docstring", "expected"),
    [("Plans. Pure.", True), ("Pure.\n\nMore.", True), ("Pure but for the environment.", False), ("", False)],
)
def test_a_promise_to_be_pure_is_read(docstring, expected):
    assert says_it_is_pure(docstring) == expected


@pytest.mark.parametrize(
    ("found", "drivers", "pure", "expected"),
    [
        ({"a.b": "os"}, {"a.b"}, set(), []),
        ({"a.b": "os", "a.c": None}, {"a"}, {"a.c"}, []),
        ({"a.b": "os", "a.c": "os"}, {"a"}, {"a.b"}, ["make it pure"]),
        ({"a.b": "os"}, set(), set(), ["make it pure"]),
        ({"a.b": None}, {"a.b"}, set(), ["take it off DRIVERS"]),
        ({"a.b": "os", "a.c": None}, {"a"}, set(), ["in PURE"]),
        ({"a.b": "os"}, {"a.b", "a.c"}, set(), ["is gone"]),
        ({"a.b": "os", "a.c": "os"}, {"a", "a.b"}, set(), ["says the same as a"]),
        ({"a.b": None}, set(), {"a.b"}, ["says the same as the rule"]),
        ({"a.__init__": "os", "a.b": None}, {"a.__init__"}, set(), []),
    ],
)
def test_what_the_tables_have_wrong_is_found(found, drivers, pure, expected):
    told = list(problems(found, drivers, pure))
    assert len(told) == len(expected)
    assert all(part in text for part, text in zip(expected, told, strict=True))


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("import asyncio", True),
        ("from os import fspath", True),
        ("def late():\n    import os.path", True),
        ("from urllib.parse import quote", False),
        ("import urllib.request", True),
        ("from other import name", True),
        ("import struct", False),
        ("if TYPE_CHECKING:\n    import asyncio", False),
        ("if TYPE_CHECKING:\n    import asyncio\nelse:\n    import os", True),
    ],
)
def test_a_leak_is_found_wherever_it_is(text, is_found):
    names = {
        "here": imported_by(ast.parse(text), with_types=False),
        "other": {"other2.x"},
        "other2": {"time"},
    }
    assert ("here" in drivers_of(names, lambda name: name.partition(".")[0])) == is_found
