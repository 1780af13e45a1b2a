"""No module without a user, none that imports itself in the end, no block for types only without a reason."""

import ast
import re

import pytest

from tests.tidy.source_tree import ROOT, imported, imports, module_of, modules, texts, tree_of

ENTRIES = {"headrace.cli.main", "pyspark_headrace"}
"""Started by a script of pyproject.toml, and by Spark."""

KIT = "headrace.testing"
IN_KIT = r"(headrace\.testing(?:\.\w+)*)(?: import (\([^)]*\)|[^\n]*))?"


def is_in_kit(name):
    return name == KIT or name.startswith(f"{KIT}.")


def is_entry(name):
    return name in ENTRIES or name.endswith(".__main__") or modules()[name].name == "__init__.py"


def used_by(files):
    """Return the modules that ``files`` import, or name in a text: what is loaded late is named in one."""
    found = set()
    for name, path in files:
        found |= {module_of(each) for each in imported(path)} - {name}
        found |= {each for each in texts(path) if each in modules() and each != name}
    return found


def test_every_module_of_the_product_is_used_by_the_product():
    product = {name: path for name, path in modules().items() if not is_in_kit(name)}
    used = used_by(product.items())
    assert {name for name in product if name not in used and not is_entry(name)} == set()


def test_every_module_of_the_test_kit_is_named_by_another_file():
    kit = {name: path for name, path in modules().items() if is_in_kit(name)}
    files = [path for folder in ("src", "tests", "benchmarks") for path in (ROOT / folder).rglob("*.py")]
    named = {name: set() for name in kit}
    for path in [*files, ROOT / "Makefile"]:
        for package, members in re.findall(IN_KIT, path.read_text()):
            for name in (package, *(f"{package}.{member}" for member in re.findall(r"\w+", members))):
                named.setdefault(name, set()).add(path)
    assert [name for name, path in kit.items() if not named[name] - {path} and not is_entry(name)] == []


def reached_from(name, graph):
    """Return what ``name`` imports, what that imports, and so on."""
    found, todo = set(), [name]
    while todo:
        new = graph[todo.pop()] - found
        found |= new
        todo += new
    return found


def in_cycles(graph):
    return {name for name in graph if name in reached_from(name, graph)}


def test_no_module_imports_itself_in_the_end():
    assert in_cycles(imports()) == set()


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        ({"a": {"b"}, "b": {"c"}, "c": set()}, set()),
        ({"a": {"b"}, "b": {"a"}, "c": {"a"}, "d": set()}, {"a", "b"}),
        ({"a": {"b"}, "b": {"a", "c"}, "c": {"d"}, "d": {"e"}, "e": {"d"}}, {"a", "b", "d", "e"}),
    ],
)
def test_cycles_are_found(graph, expected):
    assert in_cycles(graph) == expected


def blocks_without_reason(name, path):
    """Return the lines of blocks for types only that say nothing behind the colon, nor in the line above."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    for node in ast.walk(tree_of(path)) if "TYPE_CHECKING" in text else ():
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            here, above = lines[node.lineno - 1], lines[node.lineno - 2]
            if "# " not in here and not above.startswith("#"):
                yield f"{name}:{node.lineno}"


def test_an_import_for_types_only_says_why():
    assert [place for name, path in modules().items() for place in blocks_without_reason(name, path)] == []
