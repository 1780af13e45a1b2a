"""What a segment is, is changed by nobody but the modules of ``state``: others call its verbs."""

import ast
from dataclasses import fields
from pathlib import Path

import pytest

import headrace.segmentstore
from headrace.segmentstore.state.segment_attributes import SegmentAttributes
from headrace.segmentstore.state.segment_state import SegmentState

PRODUCT = Path(headrace.segmentstore.__file__).parent
FIELDS = {field.name for field in fields(SegmentState)} | set(SegmentAttributes.__slots__)
OTHERS = {"words.attributes"}
"""Fields of other objects that have such a name."""


def assigned(source):
    """Yield (line, text) of whatever is assigned, item by item, or deleted and has the name of a field."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Assign(targets=targets) | ast.Delete(targets=targets):
                pass
            case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
                targets = [target]
            case _:
                continue
        for target in targets:
            for each in target.elts if isinstance(target, ast.Tuple) else [target]:
                while isinstance(each, ast.Subscript):
                    each = each.value
                is_own = isinstance(each, ast.Attribute) and ast.unparse(each.value) == "self"
                if isinstance(each, ast.Attribute) and each.attr in FIELDS and not is_own:
                    yield node.lineno, ast.unparse(each)


@pytest.mark.slow
def test_no_other_module_assigns_a_field_of_a_segment():
    found = [
        f"{path.relative_to(PRODUCT)}:{line}: {text}"
        for path in sorted(PRODUCT.rglob("*.py"))
        if path.parent.name != "state"
        for line, text in assigned(path.read_text())
        if text not in OTHERS
    ]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        "segment.users += 1",
        "a.b.segment.stored_length = 5",
        "segment.attributes.durable[key] = 5",
        "segment.sealed, other = True, 5",
        "del segment.attributes.accepted[key]",
    ],
)
def test_such_an_assignment_would_be_found(source):
    assert len(list(assigned(source))) == 1
