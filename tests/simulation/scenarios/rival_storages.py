"""Chunked storage alone, under owners that die or live on fenced, on a store that loses and delays."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, Final

from headrace.runtime.entropy import SeededEntropy
from headrace.storage.chunks.config import SegmentStorageConfig
from headrace.testing.object_store_faults import ObjectStoreFaults
from headrace.testing.simulation import Simulation
from tests.simulation.reduction import ALL, Reduction
from tests.simulation.worlds.rival_storages import SMALL, RivalStorages, merge_all

FAULTS: Final = ("refused", "lost_replies", "slow", "broken", "strangers", "lost_commits", "former")

STEPS: Final = 150
SEGMENTS: Final = 4

Step = Sequence[Any]
"""What an owner is asked for: a verb, segments by number, how much, whether to wait for the answer."""


async def perform(world: RivalStorages, step: Step) -> None:
    """Do one step of a history."""
    match tuple(step):
        case ("write", number, sizes, wait):
            await world.write(world.name_of(number), sizes, wait=wait)
        case ("seal", number, wait):
            await world.seal(world.name_of(number), wait=wait)
        case ("truncate", number, thousandths, wait):
            await world.truncate(world.name_of(number), thousandths, wait=wait)
        case ("concat", target, source, wait):
            await world.concat(world.name_of(target), world.name_of(source), wait=wait)
        case ("delete", number, wait):
            await world.delete(world.name_of(number), wait=wait)
        case ("collect garbage",):
            await world.tidy(lambda it: it.storage.garbage.collect())
        case ("collect orphans",):
            await world.tidy(lambda it: it.storage.garbage.collect_orphans())
        case ("merge chunks", number, wait):
            name = world.name_of(number)
            await world.tidy(lambda it: merge_all(it, name), wait=wait)
        case ("drop truncated", number, wait):
            name = world.name_of(number)
            await world.tidy(lambda it: it.rewriter.drop_truncated(name), wait=wait)
        case ("former merges", number):
            name = world.name_of(number)
            await world.tidy(lambda it: merge_all(it, name), former=True, wait=False)
        case ("former writes", number):
            await world.write_as_former(world.name_of(number))
        case ("former collects",):
            await world.tidy(lambda it: it.storage.garbage.collect(), former=True)
        case ("take over", former_lives):
            await world.take_over(former_lives=former_lives)
        case ("pause", seconds):
            await asyncio.sleep(seconds)
        case _:
            raise ValueError(f"what is {step}?")


async def run_history(world: RivalStorages, history: Iterable[Step]) -> None:
    """Do all steps, with a reader beside them; then let the faults end, and look at everything."""
    await world.take_over()
    reader = asyncio.ensure_future(world.read_at_random())
    try:
        for step in history:
            await perform(world, step)
            if reader.done():
                break
    finally:
        reader.cancel()
    await asyncio.wait([reader])
    if not reader.cancelled():
        reader.result()
    await world.finish()


async def rivalry(sim: Simulation, reduction: Reduction = ALL) -> RivalStorages:
    """Run a random history."""
    entropy = sim.entropy.fork("history")
    draw = entropy.randbelow

    def rate(name: str, high: int) -> int:
        drawn = draw(high) if draw(2) else 0
        return 0 if name in reduction.without else drawn

    faults = ObjectStoreFaults(
        latency_s_max=(0.0, 0.02)[draw(2)],
        refused_per_thousand=rate("refused", 100),
        lost_replies_per_thousand=rate("lost_replies", 100),
        slow_per_thousand=rate("slow", 100),
        broken_per_thousand=rate("broken", 100),
        slow_s_max=(0.05, 10.0)[draw(2)],
        strangers_per_thousand=rate("strangers", 60),
    )
    world = RivalStorages(
        sim,
        supports_append=draw(2) > 0,
        faults=faults,
        config=_draw_config(entropy),
        forgets=draw(2) > 0,
        lost_commits_per_thousand=rate("lost_commits", 100),
    )
    former = "former" not in reduction.without
    segments = (1, 2, SEGMENTS)[draw(3)]
    steps = 20 + draw(min(STEPS, reduction.steps) + 1)
    await run_history(
        world, [_draw_step(entropy, segments, former) for _ in range(min(steps, reduction.steps))]
    )
    return world


def _draw_config(entropy: SeededEntropy) -> SegmentStorageConfig:
    draw = entropy.randbelow
    return dataclasses.replace(
        SMALL,
        rollover_bytes=(8, 64, 200)[draw(3)],
        block_bytes=(1, 4, 16)[draw(3)],
        concat_copy_bytes_max=(0, 20, 100)[draw(3)],
        garbage_delay_s=(0.0, 0.1)[draw(2)],
        commit_bytes_max=(1, 1000, 65536)[draw(3)],
        layouts_max=(1, 100)[draw(2)],
        provider_timeout_s=(1.0, 20.0)[draw(2)],
        merge_bytes_max=(30, 1000)[draw(2)],
        merge_chunks_min=(2, 4)[draw(2)],
    )


def _draw_step(entropy: SeededEntropy, segments: int, former: bool) -> Step:
    draw = entropy.randbelow
    number, other, wait = draw(segments), draw(SEGMENTS), draw(3) > 0
    match draw(30):
        case 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7:
            return "write", number, [draw(90) for _ in range(1 + draw(3))], wait
        case 8:
            return ("seal", number, wait) if draw(3) == 0 else ("pause", 0.01)
        case 9 | 10 | 11:
            return "truncate", number, draw(1001), wait
        case 12 | 13:
            return "concat", number, other, wait
        case 14:
            return "delete", number, wait
        case 15 | 16:
            return ("collect garbage",)
        case 17:
            return ("collect orphans",)
        case 18 | 19:
            return ("former writes", number) if former else ("pause", 0.01)
        case 20:
            return ("former collects",) if former else ("pause", 0.01)
        case 21:
            return "take over", former and draw(2) > 0
        case 22 | 23 | 26 | 27:
            return "merge chunks", number, draw(3) == 0
        case 24:
            return "drop truncated", number, wait
        case 25:
            return ("former merges", number) if former else ("pause", 0.01)
        case _:
            return "pause", (0.01, 0.1, 3.0)[draw(3)]
