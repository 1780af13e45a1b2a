"""Every module below ``src``, and which of them it names: in an import, at the top or not, or as a text."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src"

STATEMENTS = (ast.stmt, ast.excepthandler, ast.match_case)
"""What an import can be in."""


def module_name(path, root=SRC):
    return ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


@cache
def modules():
    """Return the path of each module by its name; generated ones are left out."""
    paths = (path for path in SRC.rglob("*.py") if "generated" not in path.parts)
    return {module_name(path): path for path in paths}


@cache
def tree_of(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def imported_by(tree, *, with_types=True):
    """Return the names that a tree imports: modules, and what is taken from them.

    Args:
        tree: of a module, or part of it.
        with_types: also those in blocks that only a type checker reads.
    """
    names, todo = set(), [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
        is_for_types = isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        inside = node.orelse if is_for_types and not with_types else ast.iter_child_nodes(node)
        todo += (each for each in inside if isinstance(each, STATEMENTS))
    return frozenset(names)


@cache
def imported(path):
    """Return the names that the file imports, wherever it does: modules, and what is taken from them."""
    return imported_by(tree_of(path))


@cache
def texts(path):
    return {
        node.value
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def module_of(name):
    """Return which of our modules an imported name belongs to; None: it is somebody else's."""
    return next((each for each in (name, name.rpartition(".")[0]) if each in modules()), None)


@cache
def imports():
    """Return the modules that each module imports."""
    return {
        name: {found for each in imported(path) if (found := module_of(each))} - {name}
        for name, path in modules().items()
    }
