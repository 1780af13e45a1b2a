"""Calls to segments have one Protocol, and what is below ``tables`` does not say once more that it is."""

import ast

import pytest

from tests.tidy.source_tree import modules, tree_of

TABLES = "headrace.segmentstore.tables."


def classes(name):
    """Yield the modules that define a class of this name."""
    for module, path in modules().items():
        nodes = ast.walk(tree_of(path)) if name in path.read_text(encoding="utf-8") else ()
        if any(isinstance(node, ast.ClassDef) and node.name == name for node in nodes):
            yield module


def names_of_tables(module, tree):
    """Yield the module, its functions and methods whose names begin with "table_"."""
    if module.rpartition(".")[2].startswith("table_"):
        yield module
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("table_"):
            yield f"{module}.{node.name}"


def test_one_protocol_says_what_is_asked_of_segments_by_name():
    assert list(classes("SegmentAccess")) == ["headrace.model.segment_access"]


def test_nothing_below_tables_is_named_for_them():
    below = {name: tree_of(path) for name, path in modules().items() if name.startswith(TABLES)}
    assert [each for name, tree in below.items() for each in names_of_tables(name, tree)] == []


@pytest.mark.parametrize(
    ("module", "text", "expected"),
    [
        ("tables.table_log", "", ["tables.table_log"]),
        ("tables.log", "class A:\n    async def table_get(self): ...", ["tables.log.table_get"]),
        ("tables.log", "def get(table_name): ...", []),
    ],
)
def test_such_names_are_found(module, text, expected):
    assert list(names_of_tables(module, ast.parse(text))) == expected
