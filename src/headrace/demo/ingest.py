"""Writes the flights into a stream, exactly once and in order per carrier, while it splits by itself."""

from __future__ import annotations

import threading
import time  # noqa: TID251 - a demo measures real durations
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from headrace.client import RetentionPolicy, ScalingPolicy, StreamConfiguration
from headrace.client.blocking import BlockingClient
from headrace.demo.flights import Flights

SCOPE: Final = "demo"
FLIGHTS: Final = "flights"
DELAYS: Final = "delays"
BOARD: Final = "board"
"""The latest departures: some of the flights, of which the last MiB is retained."""

SETTINGS: Final = {
    "HEADRACE_SCALING__SAMPLE_S": "0.1",
    "HEADRACE_SCALING__SLOW_S": "1.5",
    "HEADRACE_SCALING__HOT_S": "0.5",
    "HEADRACE_SCALING__COOL_DOWN_S": "1",
    "HEADRACE_CONTROLLER__RETENTION__PERIOD_S": "1",
    "HEADRACE_CONTAINER__STORAGE_WRITER__OBJECT_AGE_S": "10",
}
"""Environment of the demo's server: its year takes seconds, so its policies act within seconds."""

RETAINED_BYTES: Final = 1 << 20
_EVENTS_PER_S: Final = 40_000
_TARGET_RATE: Final = 15_000
"""Of events per second in each segment: what is written is more than two segments are meant to take."""

_WRITERS: Final = 2
_ROWS_PER_CALL: Final = 4096
_BOARD_ROWS: Final = 512
_POLL_S: Final = 0.05
_RETENTION_WAIT_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Scaled:
    """From ``seconds`` after the first write on, the stream had so many segments."""

    seconds: float
    segments: int


@dataclass(slots=True)
class Ingested:
    """What was written, and how the stream followed."""

    events: int
    size_bytes: int
    scales: list[Scaled] = field(default_factory=list)

    def summary(self) -> str:
        """Return the numbers of segments with the times at which they changed."""
        first, *later = self.scales
        return f"by itself: {first.segments} segments" + "".join(
            f" → {each.segments} after {each.seconds:.1f} s" for each in later
        )


def prepare(client: BlockingClient) -> None:
    """Create the scope and its streams."""
    client.create_scope(SCOPE)
    by_rate = ScalingPolicy.by_event_rate(_TARGET_RATE, scale_factor=2, segments_min=2)
    client.create_stream(SCOPE, FLIGHTS, StreamConfiguration(scaling=by_rate))
    board = StreamConfiguration(retention=RetentionPolicy.by_size(RETAINED_BYTES))
    client.create_stream(SCOPE, BOARD, board)
    client.create_stream(SCOPE, DELAYS, StreamConfiguration(scaling=ScalingPolicy.fixed(2)))


def write_flights(client: BlockingClient, flights: Flights, on_progress: Callable[[int], None]) -> Ingested:
    """Write every flight with its carrier as routing key; return when all of them are durable.

    Each carrier belongs to one of two writers, so that its flights keep their order. They write more than the
    stream's two segments are meant to take, so that it splits; writers follow without losing, doubling or
    reordering anything.
    """
    shares = _divide(flights.events)
    done = Ingested(flights.events.num_rows, flights.payload_bytes)
    writers = [client.event_writer(SCOPE, FLIGHTS) for _ in range(_WRITERS)]
    board = client.event_writer(SCOPE, BOARD)
    written, started = 0, time.perf_counter()
    with _watched_scales(client, done.scales, started):
        while any(shares):
            for writer, share in zip(writers, shares, strict=True):
                if not share:
                    continue
                batch = share.pop()
                writer.write_many(batch.column("event"), batch.column("carrier"))
                latest = batch.slice(0, _BOARD_ROWS)
                board.write_many(latest.column("event"), latest.column("carrier"))
                written += batch.num_rows
                on_progress(batch.num_rows)
            time.sleep(max(0.0, started + written / _EVENTS_PER_S - time.perf_counter()))
        for writer in (*writers, board):
            writer.close()
    return done


@contextmanager
def _watched_scales(client: BlockingClient, scales: list[Scaled], started: float) -> Iterator[None]:
    """Add to ``scales`` whenever the stream has another number of segments."""
    stopping = threading.Event()

    def look() -> None:
        count = len(client.current_segments(SCOPE, FLIGHTS))
        if not scales or scales[-1].segments != count:
            scales.append(Scaled(time.perf_counter() - started, count))

    def watch() -> None:
        while not stopping.wait(_POLL_S):
            look()

    look()
    with ThreadPoolExecutor(1, "demo-scales") as pool:
        watching = pool.submit(watch)
        try:
            yield
        finally:
            stopping.set()
        watching.result()


def wait_retained(client: BlockingClient) -> tuple[int, int]:
    """Wait until retention has dropped a part of the board; return the bytes written to it and retained.

    Raises:
        TimeoutError: nothing was dropped in a minute.
    """
    written = sum(client.tail_cut(SCOPE, BOARD).offsets.values())
    deadline = time.monotonic() + _RETENTION_WAIT_S
    while not (dropped := sum(client.head_cut(SCOPE, BOARD).offsets.values())):
        if time.monotonic() > deadline:
            raise TimeoutError(f"retention of {SCOPE}/{BOARD} has dropped nothing")
        time.sleep(_POLL_S)
    return written, written - dropped


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
