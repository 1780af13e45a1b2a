"""Two to four controllers that are killed, paused, cut off and told lies, under everything that clients do.

Judged: order and completeness per key through a storm of scales; a ring of keys moved by transactions stays a
ring; retention deletes nothing that a subscriber still needs; streams that come and go leave nothing behind;
rows and segments agree in the end; every workflow ends.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Final

from headrace.controller.config import ControllerConfig
from headrace.controller.settings.retention import RetentionConfig
from headrace.limits import INT64_MAX
from headrace.rpc.generated import controller_pb2 as pb
from headrace.testing.simulation import Simulation
from tests.simulation.reduction import Reduction
from tests.simulation.workloads.stream_clients import (
    SCOPE,
    Churner,
    KeyWriter,
    Reader,
    RingMover,
    Scaler,
    Subscriber,
    check_order,
    info,
)
from tests.simulation.worlds.controllers_world import FAULTS, ControllersWorld
from tests.unit.controller import mortality

__all__ = ["CLIENTS", "FAULTS", "LIVES", "STEPS", "dominion"]

LIVES: Final = 8
CLIENTS: Final = 2
STEPS: Final = 24


@dataclass(frozen=True, slots=True)
class Seen:
    """What happened in one run: a simulation in which nothing happens proves nothing."""

    events: int
    moves: int
    stream_epochs: int
    truncated: bool


async def dominion(sim: Simulation, reduction: Reduction) -> Seen:
    """Let clients work in trouble; mend everything; judge."""
    draw = sim.entropy.randbelow
    config = ControllerConfig(
        lease_ms_min=1,
        lease_grace_ms_min=0,
        commit_batch_max=1 + draw(3),
        buckets=1 + draw(5),
        workflow_timeout_s=20.0,
        retention=RetentionConfig(period_s=0.5 + draw(40) / 10),
    )
    world = ControllersWorld(sim, reduction, config)
    await world.start(2 + draw(3))
    troubling = asyncio.get_running_loop().create_task(world.trouble())
    await world.ask("create_scope", pb.ScopeInfo(scope=SCOPE), final=_accepted)
    for stream, segments in (("storm", 1 + draw(3)), ("ring", 1 + draw(2))):
        request = pb.StreamConfig(
            streamInfo=info(stream), scalingPolicy=pb.ScalingPolicy(minNumSegments=segments)
        )
        await world.ask("create_stream", request, final=_accepted)
    kept = Subscriber(world, "kept", sim.entropy.fork("subscriber"))
    retention = pb.RetentionPolicy(
        retentionType=(pb.RetentionPolicy.SIZE, pb.RetentionPolicy.TIME)[draw(2)],
        retentionParam=1 + draw(200),
        retentionMax=INT64_MAX,
    )
    await world.ask(
        "create_stream",
        pb.StreamConfig(
            streamInfo=info("kept"),
            scalingPolicy=pb.ScalingPolicy(minNumSegments=1),
            retentionPolicy=retention,
        ),
        final=_accepted,
    )
    await kept.subscribe()
    clients = min(CLIENTS, reduction.clients)
    steps = 1 + draw(min(STEPS, reduction.steps))
    entropy = sim.entropy
    writers = [
        KeyWriter(world, "storm", entropy.fork(f"writer-{number}"), _positions(number))
        for number in range(clients)
    ]
    keeper = KeyWriter(world, "kept", entropy.fork("keeper"), _positions(0))
    storm, ring = (Reader(world, name, entropy.fork(f"reader-{name}")) for name in ("storm", "ring"))
    mover = RingMover(world, "ring", entropy.fork("mover"), [index / 7 for index in range(7)])
    work: list[Any] = [writer.run(4 * steps) for writer in (*writers, keeper)]
    work += [mover.run(steps), Churner(world, "", entropy.fork("churn")).run(steps)]
    work += [
        Scaler(world, name, entropy.fork(f"scaler-{name}")).run(1 + steps // 4)
        for name in ("storm", "ring", "kept")
    ]
    reading = [asyncio.get_running_loop().create_task(reader.run()) for reader in (storm, ring, kept)]
    await asyncio.gather(*work)
    for task in (troubling, *reading):
        task.cancel()
    await asyncio.gather(troubling, *reading, return_exceptions=True)
    await world.mend()
    check_order(await storm.finish(), writers)
    check_order(await kept.finish(), [keeper])
    mover.check(await ring.finish())
    await _check_nothing_left(world)
    return Seen(
        events=len(storm.events),
        moves=mover.committed,
        stream_epochs=max(int(piece.segment_id) >> 32 for piece in await storm.current()),
        truncated=await _is_truncated(kept),
    )


async def _is_truncated(reader: Reader) -> bool:
    """Whether retention has dropped something."""
    answer = await reader.world.ask("get_segments", pb.GetSegmentsRequest(streamInfo=info(reader.stream)))
    return any(each.offset > 0 or each.segmentId.segmentId >> 32 for each in answer.segments)


def _positions(number: int) -> list[float]:
    """Return keys that no other writer writes."""
    return [(number + CLIENTS * index) / (5 * CLIENTS) for index in range(5)]


def _accepted(answer: Any) -> bool:
    exists = getattr(type(answer), "STREAM_EXISTS", getattr(type(answer), "SCOPE_EXISTS", None))
    return answer.status in {0, exists}


async def _check_nothing_left(world: ControllersWorld) -> None:
    """Assert that every workflow has ended, and that the stores hold what the rows say and nothing else."""
    check: Any = mortality.check_world
    for name, controller in sorted(world.controllers.items()):
        host = world.sim.host(name)
        await host.run(check(_Stores(world), controller))


class _Stores:
    """The two stores as ``check_world`` calls them."""

    def __init__(self, world: ControllersWorld) -> None:
        self.store = world.rows
        self.segments = world.segments
