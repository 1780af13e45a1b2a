"""Long work lets others run in between, as often as its maker says."""

import asyncio

import pytest

from headrace.runtime.loop_budget import LoopBudget


async def turns_of(budget, pieces):
    """Spend ``pieces`` while another task counts its turns: the answers, and the turns seen at each."""
    turns = 0

    async def others():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    seen = []
    for units in pieces:
        answer = await budget.spend(units)
        seen.append((answer, turns))
    task.cancel()
    return seen


async def test_nobody_else_runs_before_the_units_are_used_up_and_then_somebody_does():
    seen = await turns_of(LoopBudget(3), [1] * 9)
    assert [turns for _, turns in seen] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert [yielded for yielded, _ in seen] == [False, False, False, True, False, False, True, False, False]


@pytest.mark.parametrize(
    ("pieces", "turns"), [([10, 1, 1], [0, 1, 1]), ([2, 2, 2], [0, 0, 1]), ([0, 0, 0], [0, 0, 0])]
)
async def test_a_piece_is_never_split_and_work_of_nothing_costs_nothing(pieces, turns):
    assert [seen for _, seen in await turns_of(LoopBudget(3), pieces)] == turns
