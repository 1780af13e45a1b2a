"""Calls to segments have one Protocol and one word each."""

import ast

from tests.tidy.source_tree import modules, tree_of


def classes(name):
    """Yield the modules that define a class of this name."""
    for module, path in modules().items():
        if any(isinstance(node, ast.ClassDef) and node.name == name for node in ast.walk(tree_of(path))):
            yield module


def test_one_protocol_says_what_is_asked_of_segments_by_name():
    assert list(classes("SegmentAccess")) == ["headrace.model.segment_access"]
