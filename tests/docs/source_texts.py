"""Every text in the source with its gaps, so that pages can quote what the program says."""

import ast
import re
from functools import cache
from pathlib import Path

from tests.tidy.source_tree import tree_of

SOURCE = Path(__file__).parents[2] / "src" / "headrace"
GAP = "\0"
_FORMAT = re.compile(r"%(?:\.\d+)?[a-zA-Z]")


@cache
def source_texts():
    """Return all string constants but docstrings; values that are filled in are gaps."""
    found = set()
    for path in SOURCE.rglob("*.py"):
        nodes = list(ast.walk(tree_of(path)))
        unsaid = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        for node in nodes:
            if id(node) in unsaid:
                continue
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(_FORMAT.sub(GAP, node.value))
            elif isinstance(node, ast.JoinedStr):
                parts = [part.value if isinstance(part, ast.Constant) else GAP for part in node.values]
                found.add("".join(map(str, parts)))
    return found


def is_said(line):
    """Whether some text of the source is ``line``, whose gaps are written as ``<name>``; what ``...`` stands
    for is left out.
    """
    wanted = [part for part in re.sub(r"<[^>]*>", GAP, line).split("...") if part.strip()]
    if len(wanted) == 1:
        return any(wanted[0] in text for text in source_texts())
    pattern = re.compile(".*".join(re.escape(part.strip()) for part in wanted), re.DOTALL)
    return any(pattern.search(text) for text in source_texts())
