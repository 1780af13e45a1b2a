"""Writes the flights into a stream, exactly once and in order per carrier, while the stream scales."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from headrace.client import KeyRange, ScalingPolicy, StreamConfiguration
from headrace.client.blocking import BlockingClient
from headrace.demo.flights import Flights

SCOPE: Final = "demo"
FLIGHTS: Final = "flights"
DELAYS: Final = "delays"

_WRITERS: Final = 2
_ROWS_PER_CALL: Final = 4096


@dataclass(frozen=True, slots=True)
class Ingested:
    """What was written, and into how many segments at a time."""

    events: int
    size_bytes: int
    segment_counts: tuple[int, ...]


def prepare(client: BlockingClient) -> None:
    """Create the scope and both streams."""
    client.create_scope(SCOPE)
    client.create_stream(SCOPE, FLIGHTS, StreamConfiguration(scaling=ScalingPolicy.fixed(2)))
    client.create_stream(SCOPE, DELAYS, StreamConfiguration(scaling=ScalingPolicy.fixed(2)))


def write_flights(client: BlockingClient, flights: Flights, on_progress: Callable[[int], None]) -> Ingested:
    """Write every flight with its carrier as routing key; return when all of them are durable.

    Each carrier belongs to one of two writers, so that its flights keep their order. A third and two thirds
    of the way the stream is scaled; writers follow without losing, doubling or reordering anything.
    """
    shares = _divide(flights.events)
    counts = [len(client.current_segments(SCOPE, FLIGHTS))]
    total = flights.events.num_rows
    steps = {1: _split, 2: _merge}
    scaling: list[Future[None]] = []
    writers = [client.event_writer(SCOPE, FLIGHTS) for _ in range(_WRITERS)]
    written = 0
    with ThreadPoolExecutor(1, "demo-scaling") as pool:
        while any(shares):
            for writer, share in zip(writers, shares, strict=True):
                if not share:
                    continue
                batch = share.pop()
                writer.write_many(batch.column("event"), batch.column("carrier"))
                written += batch.num_rows
                on_progress(batch.num_rows)
            third = 3 * written // total
            if third in steps:
                scaling.append(pool.submit(steps.pop(third), client, counts))
            if written > total * 9 // 10:
                for each in scaling:
                    each.result()  # the last flights surely go to the newest segments
        for writer in writers:
            writer.close()
    return Ingested(total, flights.payload_bytes, tuple(counts))


def _divide(events: Any) -> list[list[Any]]:
    """Return the record batches of each writer, the next one last."""
    import pyarrow as pa
    import pyarrow.compute as pc

    carriers = sorted(pc.unique(events["carrier"]).to_pylist())
    shares = []
    for index in range(_WRITERS):
        mine = pa.array(carriers[index::_WRITERS], pa.string())
        chosen = events.filter(pc.is_in(events["carrier"], mine)).combine_chunks()
        shares.append(chosen.to_batches(max_chunksize=_ROWS_PER_CALL)[::-1])
    return shares


def _split(client: BlockingClient, counts: list[int]) -> None:
    """Two segments become four."""
    current = client.current_segments(SCOPE, FLIGHTS)
    halves = []
    for each in current:
        middle = (each.key_range.low + each.key_range.high) / 2
        halves += [KeyRange(each.key_range.low, middle), KeyRange(middle, each.key_range.high)]
    client.scale_stream(SCOPE, FLIGHTS, [each.segment_id for each in current], halves)
    counts.append(len(client.current_segments(SCOPE, FLIGHTS)))


def _merge(client: BlockingClient, counts: list[int]) -> None:
    """The two middle segments become one."""
    current = sorted(client.current_segments(SCOPE, FLIGHTS), key=lambda each: each.key_range.low)
    below, above = current[1], current[2]
    joined = KeyRange(below.key_range.low, above.key_range.high)
    client.scale_stream(SCOPE, FLIGHTS, [below.segment_id, above.segment_id], [joined])
    counts.append(len(client.current_segments(SCOPE, FLIGHTS)))
