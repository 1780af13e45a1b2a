"""The table of docs/benchmarks.md shows the newest figure of each goal and calls none met that is not."""

import importlib.util
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "generate_benchmark_table.py"

GOALS = """
[[goal]]
name = "rate"
measure = "ingest"
at_least = 0.9
repeat = "benchmarks.ingest"

[[goal]]
name = "memory"
measure = "resident"
at_most = 512
unit = "MiB"
repeat = "benchmarks.endurance"
"""


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("generate_benchmark_table", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def results(day, machine, *figures):
    lines = [
        f"measured = 2026-11-{day:02}T12:00:00",
        'revision = "0"',
        "[machine]",
        f'name = "{machine}"',
        "cores = 2",
        *(f'{key} = "-"' for key in ("processor", "memory", "disk", "software")),
    ]
    for figure in figures:
        lines += ["[[figure]]", *figure]
    return "\n".join(lines)


def rows_of(tool, *runs):
    goals = tool.read_goals(GOALS)
    text = tool.table(goals, [tool.read_run(run, goals) for run in runs])
    return {line.split(" | ")[0].removeprefix("| "): line for line in text.splitlines()}


@pytest.mark.parametrize(
    ("goal", "value", "verdict"),
    [
        ("rate", 0.89, "**no**"),
        ("rate", 0.9, "yes"),
        ("rate", 1.2, "yes"),
        ("memory", 511, "yes"),
        ("memory", 512, "yes"),
        ("memory", 513, "**no**"),
        ("memory", 0, "yes"),
    ],
)
def test_the_bound_decides_what_is_met(tool, goal, value, verdict):
    rows = rows_of(tool, results(1, "A", [f'goal = "{goal}"', f"value = {value}"]))
    assert f" | {verdict} | " in rows[goal]


def test_the_newest_figure_of_each_goal_is_shown(tool):
    old = results(1, "A", ['goal = "rate"', "value = 0.5"], ['goal = "memory"', "value = 300"])
    new = results(2, "B", ['goal = "rate"', "value = 0.95"])
    for runs in ((old, new), (new, old)):
        rows = rows_of(tool, *runs)
        assert "B, 2026-11-02" in rows["rate"]
        assert "A, 2026-11-01" in rows["memory"]


def test_a_goal_without_a_figure_is_not_met(tool):
    assert "not measured" in rows_of(tool)["rate"]
    without_ratio = results(1, "A", ['goal = "rate"', 'ours = "9 MB/s"', 'beside = "no answer"'])
    assert "no ratio" in rows_of(tool, without_ratio)["rate"]


@pytest.mark.parametrize(
    "figures",
    [
        (['goal = "unknown"', "value = 1"],),
        (['goal = "rate"', "value = 1"], ['goal = "rate"', "value = 2"]),
        (['goal = "rate"', 'ours = "9 MB/s"'],),
    ],
    ids=["unknown goal", "goal twice", "no value and no reason"],
)
def test_results_that_cannot_be_judged_are_refused(tool, figures):
    with pytest.raises(ValueError, match=r"goal|figure"):
        tool.read_run(results(1, "A", *figures), tool.read_goals(GOALS))
