"""What Makefile and pyproject.toml promise is there, and nothing is asked for that nobody needs."""

import re
import tomllib
from functools import cache
from importlib.metadata import packages_distributions

import pytest

from tests.tidy.source_tree import ROOT, imported, modules, texts

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MAKEFILE = (ROOT / "Makefile").read_text()
RULES = set(re.findall(r"^([a-z][a-z-]*):", MAKEFILE, re.MULTILINE))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

RUN_TIME = {
    "main": PROJECT["dependencies"],
    **{name: needs for name, needs in PROJECT["optional-dependencies"].items() if name != "dev"},
}
"""What the package itself may import. Tools for developers are run, not imported."""


def distribution_of(requirement):
    return re.match(r"[A-Za-z0-9._-]+", requirement).group().lower()


@cache
def names_in_source():
    """Return the outermost names that the source imports, or looks for by a text: ``find_spec("numpy")``."""
    found = set()
    for path in modules().values():
        found |= {name.partition(".")[0] for name in imported(path)} | texts(path)
    return found


@cache
def import_names():
    """Return by which names each installed distribution is imported."""
    found = {}
    for name, distributions in packages_distributions().items():
        for distribution in distributions:
            found.setdefault(distribution.lower(), {distribution.lower().replace("-", "_")}).add(name)
    return found


def test_every_recipe_has_a_rule_and_a_line_of_help():
    announced = re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)
    assert {name for line in announced for name in line.split()} - RULES == set()
    helped = set(re.findall(r"^([a-z][a-z-]*):.*  ## ", MAKEFILE, re.MULTILINE))
    assert RULES - helped == set()


def test_every_recipe_that_a_page_tells_to_make_is_there():
    told = {
        (page.name, name) for page in PAGES for name in re.findall(r"`make ([a-z][a-z-]*)", page.read_text())
    }
    assert sorted((page, name) for page, name in told if name not in RULES) == []


@pytest.mark.parametrize("group", RUN_TIME)
def test_the_source_imports_something_of_every_requirement(group):
    used, names = names_in_source(), import_names()
    unused = [
        requirement
        for requirement in RUN_TIME[group]
        if (name := distribution_of(requirement)) != "headrace"
        and not names.get(name, {name.replace("-", "_")}) & used
    ]
    assert unused == []


def test_every_requirement_says_why_it_is_needed():
    page = (ROOT / "docs" / "dependencies.md").read_text()
    needs = [
        requirement
        for group in (PROJECT["dependencies"], *PROJECT["optional-dependencies"].values())
        for requirement in group
    ]
    names = {distribution_of(requirement) for requirement in needs} - {"headrace"}
    assert sorted(name for name in names if name not in page) == []
