"""Divides blocks that a sealed segment did not take among the segments that continue it. Pure."""

from __future__ import annotations

from headrace.client.framing.event_framing import find_frames
from headrace.client.segment_map import SegmentMap
from headrace.client.writer.inflight_window import Block
from headrace.client.writer.places import resolve_places
from headrace.client.writer.routing import SpreadPositions


def divide_block(block: Block, segments: SegmentMap, spread: SpreadPositions) -> list[tuple[int, Block]]:
    """Return the parts of ``block`` with the segments they go to; the order within a key stays.

    An ack of the block becomes one of all parts. The block itself must not be used any more.
    """
    positions = resolve_places(block.places, block.event_count, spread)
    block.places = positions
    if isinstance(positions, float):
        return [(segments.segment_at(positions), block)]
    places: list[float] = positions if isinstance(positions, list) else positions.tolist()
    targets = [segments.segment_at(position) for position in places]
    if len(dict.fromkeys(targets)) == 1:
        return [(targets[0], block)]
    parts = _gather(block, targets, places)
    for ack in block.acks:
        ack.add_parts(len(parts) - 1)
    return parts


def _gather(block: Block, targets: list[int], positions: list[float]) -> list[tuple[int, Block]]:
    data = block.to_bytes()
    frames = find_frames(data)
    bounds = frames if isinstance(frames, list) else frames.tolist()
    assert len(bounds) == len(targets) + 1  # whole events only, as many as places
    assert bounds[-1] == block.size_bytes
    view = memoryview(data)
    pieces: dict[int, list[memoryview]] = {}
    places: dict[int, list[float]] = {}
    for index, target in enumerate(targets):
        pieces.setdefault(target, []).append(view[bounds[index] : bounds[index + 1]])
        places.setdefault(target, []).append(positions[index])
    return [
        (
            target,
            Block(mine, sum(map(len, mine)), len(places[target]), places[target], list(block.acks)),
        )
        for target, mine in pieces.items()
    ]
