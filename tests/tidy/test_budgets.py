"""What is done before other tasks of the loop go on: a ``LoopBudget`` says it, or a number with a reason."""

import ast
import re

import pytest

from tests.tidy.source_tree import modules, tree_of

NUMBER = re.compile(r"(AT_ONCE|PORTION|PER_ITERATION|PER_ROUND|PER_TURN|AT_A_TIME)")


def budgets_of(tree):
    """Return the names of the numbers that ``LoopBudget`` is made with."""
    return {
        ast.unparse(argument)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "LoopBudget"
        for argument in node.args
    }


def trees(*words):
    """Yield the name and tree of each module whose text has a number of such a name, and all of ``words``."""
    for name, path in modules().items():
        text = path.read_text(encoding="utf-8")
        if NUMBER.search(text) and all(word in text for word in words):
            yield name, tree_of(path)


def without_reason(tree):
    """Yield the numbers that are no budget and have no docstring behind them."""
    budgets = budgets_of(tree)
    for node, behind in zip(tree.body, [*tree.body[1:], None], strict=True):
        match node:
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                is_told = isinstance(behind, ast.Expr) and isinstance(behind.value, ast.Constant)
                if NUMBER.search(name) and name not in budgets and not is_told:
                    yield name


def test_a_number_of_things_done_at_once_is_a_budget_or_says_why_not():
    found = [f"{name}: {each}" for name, tree in trees() for each in without_reason(tree)]
    assert found == []


def yields_by_hand(tree):
    """Yield the functions that spend a number of their module and yield to the loop themselves."""
    for function in ast.walk(tree):
        if isinstance(function, ast.AsyncFunctionDef):
            text = ast.unparse(function)
            if "asyncio.sleep(0)" in text and NUMBER.search(text):
                yield function.name


def test_nothing_counts_until_it_yields_to_the_loop_but_the_budget():
    found = [f"{name}: {each}" for name, tree in trees("sleep(0)") for each in yields_by_hand(tree)]
    assert found == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("_AT_ONCE: Final = 3", ["_AT_ONCE"]),
        ("ROWS_PER_ROUND = 3\nB = 2", ["ROWS_PER_ROUND"]),
        ("_AT_ONCE: Final = 3\n'''Why.'''", []),
        ("_AT_ONCE: Final = 3\nbudget = LoopBudget(_AT_ONCE)", []),
        ("ROWS_MAX: Final = 3", []),
    ],
)
def test_numbers_without_a_reason_are_found(text, expected):
    assert list(without_reason(ast.parse(text))) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [("await asyncio.sleep(0)", []), ("some[:_AT_ONCE]; await asyncio.sleep(0)", ["work"])],
)
def test_functions_that_yield_by_hand_are_found(body, expected):
    assert list(yields_by_hand(ast.parse(f"async def work(): {body}"))) == expected
