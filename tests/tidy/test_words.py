"""An epoch has its first word, as there are two kinds: below ``wal`` and ``storage`` it is a container's."""

import ast

import pytest

from tests.tidy.source_tree import modules, tree_of

OF_FORMATS = {"encode_header"}
"""Functions with a parameter for each field of a format; these keep their names."""


def bare_epochs(tree):
    """Yield the parameters of functions that are only "epoch", and fields that do not say whose."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name not in OF_FORMATS:
            arguments = node.args
            if "epoch" in {each.arg for each in (*arguments.args, *arguments.kwonlyargs)}:
                yield f"{node.name}(epoch)"
        elif isinstance(node, ast.ClassDef):
            for field, behind in zip(node.body, [*node.body[1:], None], strict=True):
                if isinstance(field, ast.AnnAssign) and ast.unparse(field.target) == "epoch":
                    said = ast.unparse(behind) if isinstance(behind, ast.Expr) else ""
                    if "container epoch" not in said.lower():
                        yield f"{node.name}.epoch"


def test_an_epoch_of_a_log_or_of_storage_has_its_first_word():
    parts = ("headrace.wal", "headrace.storage")
    trees = {name: tree_of(path) for name, path in modules().items() if name.startswith(parts)}
    assert [f"{name}: {each}" for name, tree in trees.items() for each in bare_epochs(tree)] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def take(epoch): ...", ["take(epoch)"]),
        ("def take(*, epoch): ...", ["take(epoch)"]),
        ("def take(container_epoch): ...", []),
        ("class A:\n    epoch: int\n    number: int", ["A.epoch"]),
        ("class A:\n    epoch: int\n    'Container epoch.'", []),
    ],
)
def test_epochs_without_a_first_word_are_found(text, expected):
    assert list(bare_epochs(ast.parse(text))) == expected
