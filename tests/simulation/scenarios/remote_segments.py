"""Calls to a segment store in another process, while connections drop and containers come and go.

Every append has bytes of its own, so that the segment says how often each of them is there.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from headrace.client.connections.pool import ConnectionPool
from headrace.controller.segments.remote.locator import OneStore
from headrace.controller.segments.remote.remote_segments import RemoteSegments
from headrace.errors import (
    ConnectionLostError,
    OffsetMismatchError,
    OverloadError,
    OwnershipError,
)
from headrace.model.endpoint import Endpoint
from headrace.processes.config import StandaloneConfig
from headrace.processes.wired_store import WiredStore
from headrace.runtime.entropy import SeededEntropy
from headrace.testing.host import SimulatedHost
from headrace.testing.simulation import Simulation
from headrace.wire.catalogue import INTERNAL_VERSION

CONTAINERS: Final = 2
CLIENTS: Final = 6
APPENDS: Final = 25
SIZE: Final = 12
_PORT: Final = 12345
_SEGMENTS: Final = ("s/a/0.#epoch.0", "s/b/0.#epoch.0", "s/c/0.#epoch.0")


@dataclass
class Told:
    """What callers were told about their appends, by their bytes."""

    there: dict[bytes, tuple[str, int | None]] = field(default_factory=dict)
    absent: set[bytes] = field(default_factory=set)
    unknown: set[bytes] = field(default_factory=set)
    dropped: int = 0
    moves: int = 0
    ended: asyncio.Event = field(default_factory=asyncio.Event)


async def cut_appends(sim: Simulation) -> Told:
    """Append from many sides in trouble, then compare what is there with what was told."""
    store, caller = sim.host("store"), sim.host("caller")
    data_plane = WiredStore(StandaloneConfig(in_memory=True), store.runtime, CONTAINERS)
    await store.run(data_plane.start())
    await store.run(data_plane.listen("0.0.0.0", _PORT))
    told = Told()
    entropy = sim.entropy.fork("calls")
    segments = await caller.run(_connect(entropy.fork("writers")))
    trouble = asyncio.ensure_future(_trouble(sim, store, data_plane, told))
    clients = [_append(segments, number, told, entropy.fork(f"{number}")) for number in range(CLIENTS)]
    await asyncio.gather(*map(caller.run, clients))
    told.ended.set()
    await trouble
    await store.run(_judge(data_plane, told))
    await store.run(data_plane.stop())
    return told


async def _connect(entropy: SeededEntropy) -> RemoteSegments:
    """Return what has spoken to its store already: what encryption it wants is not the question here."""
    pool = ConnectionPool(version=INTERNAL_VERSION)
    segments = RemoteSegments(pool, OneStore(Endpoint("store", _PORT)), lambda _: "", entropy)
    for segment in _SEGMENTS:
        await segments.create_segment(segment)
    return segments


async def _append(segments: RemoteSegments, client: int, told: Told, entropy: SeededEntropy) -> None:
    for number in range(APPENDS):
        segment = _SEGMENTS[entropy.randbelow(len(_SEGMENTS))]
        data = b"<%03d-%06d>" % (client, number)
        assert len(data) == SIZE
        expected = -1
        try:
            if entropy.randbelow(3) == 0:
                expected = (await segments.segment_info(segment)).length
            offset = await segments.append(segment, data, expected_offset=expected)
        except (OffsetMismatchError, OwnershipError, OverloadError):
            told.absent.add(data)
        except ConnectionLostError:
            told.unknown.add(data)
        else:
            assert expected in {-1, offset}
            told.there[data] = segment, offset
        await asyncio.sleep(entropy.random() * 0.01)


async def _trouble(sim: Simulation, store: SimulatedHost, data_plane: WiredStore, told: Told) -> None:
    entropy = sim.entropy.fork("trouble")
    while not told.ended.is_set():
        await asyncio.sleep(entropy.random() * 0.02)
        match entropy.randbelow(10):
            case 0:
                source, target = ("store", "caller") if entropy.randbelow(2) else ("caller", "store")
                sim.network.clog(source, target, entropy.random() * 0.2)
            case 1:
                container = entropy.randbelow(CONTAINERS)
                await store.run(data_plane.assignment.take(container))
                await asyncio.sleep(entropy.random() * 0.05)
                await store.run(data_plane.assignment.give(container))
                told.moves += 1
            case _:
                told.dropped += sim.network.drop_connections("store")


async def _judge(data_plane: WiredStore, told: Told) -> None:
    found: Counter[bytes] = Counter()
    places: dict[bytes, tuple[str, int]] = {}
    for segment in _SEGMENTS:
        length = (await data_plane.store.segment_info(segment)).length
        data = b""
        while len(data) < length:
            data += (await data_plane.store.read(segment, len(data), length, wait=False)).to_bytes()
        for offset in range(0, length, SIZE):
            piece = data[offset : offset + SIZE]
            found[piece] += 1
            places[piece] = segment, offset
    twice = [data for data, count in found.items() if count > 1]
    assert not twice, f"doubled: {twice}"
    for data, (segment, begins) in told.there.items():
        assert found[data] == 1, f"lost: {data!r}"
        where, offset = places[data]
        assert where == segment
        assert begins in {None, offset}
    assert not told.absent & found.keys(), "there, and refused"
    assert found.keys() <= told.there.keys() | told.unknown
