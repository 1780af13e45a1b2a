"""Loads on a server of any kind, in streams of their own: writes, reads, events at a fixed rate."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time  # noqa: TID251 - real durations are measured
from collections.abc import Callable
from functools import partial
from typing import Final

from headrace.cli.bench.results import SAMPLES_MAX, Plan, Result
from headrace.client.connect import Client
from headrace.client.writer.ack import Ack
from headrace.client.writer.event_writer import EventWriter
from headrace.errors import ConnectionLostError, HeadraceError, ThrottledError
from headrace.limits import MIB
from headrace.model.policies import ScalingPolicy, StreamConfiguration

OnProgress = Callable[[int], None]
"""Takes how many events are done."""

_BATCH_EVENTS: Final = 4096
_SETTLE_S: Final = 30.0
_NUMBER_BYTES: Final = 12
_LATE: Final = "the reader did not get all events within 30 s"
_now = time.perf_counter


class Bench:
    """Carries out a plan in a scope that exists and is its own."""

    def __init__(self, client: Client, scope: str, plan: Plan) -> None:
        self._client = client
        self._scope = scope
        self._plan = plan

    async def write(self, on_progress: OnProgress) -> Result:
        """Write all events as fast as they go; times go from the write of a batch to its acknowledgement."""
        plan, times, done = self._plan, list[float](), 0
        await self._create("write")
        batch = max(1, min(_BATCH_EVENTS, MIB // plan.size, -(-plan.events // plan.writers)))
        events = [bytes(plan.size)] * batch
        left = plan.events

        def on_acknowledged(began: float, _: Ack) -> None:
            if len(times) < SAMPLES_MAX:
                times.append((_now() - began) * 1000)

        async def load(writer: EventWriter, keys: list[str]) -> None:
            nonlocal left, done
            while left > 0:
                count = min(batch, left)
                left -= count
                some = events if count == batch else events[:count]
                writer.write_many(some, keys[:count]).add_done_callback(partial(on_acknowledged, _now()))
                await writer.drain()
                done += count
                on_progress(done)
            await writer.flush()

        async with contextlib.AsyncExitStack() as stack:
            writers = [
                await stack.enter_async_context(self._client.event_writer(self._scope, "write"))
                for _ in range(plan.writers)
            ]
            keys = [f"key-{number % plan.keys}" for number in range(batch)]
            began = _now()
            await asyncio.gather(*(load(writer, keys) for writer in writers))
            seconds = _now() - began
        return Result("write", plan.events, plan.events * plan.size, seconds, times)

    async def read(self, on_progress: OnProgress) -> Result:
        """Read from its head to its tail what was written."""
        began, events, size = _now(), 0, 0
        async with self._client.event_reader(self._scope, "write", end="tail") as reader:
            async for batch in reader.batches():
                events += len(batch)
                size += batch.size_bytes
                on_progress(events)
        return Result("read", events, events * self._plan.size, _now() - began)

    async def latency(self, on_progress: OnProgress) -> list[Result]:
        """Write events at a fixed rate while a reader follows.

        Each has a time when it is due, and its times count from there, whether or not those before were late.
        """
        plan = self._plan
        count = max(1, int(plan.rate * plan.seconds))
        due, acknowledged, seen = ([0.0] * count for _ in range(3))
        payload = bytes(max(0, plan.size - _NUMBER_BYTES))
        await self._create("latency")
        failures: list[BaseException] = []

        async def read() -> None:
            left = count
            async with self._client.event_reader(self._scope, "latency") as reader:
                while left:
                    batch = await reader.next_batch()
                    assert batch is not None  # nobody seals the stream
                    at = _now()
                    for event in batch.payloads():
                        seen[int(event[:_NUMBER_BYTES])] = at
                    left -= len(batch)

        def on_acknowledged(number: int, ack: Ack) -> None:
            acknowledged[number] = _now()
            if (error := ack.error()) is not None:
                failures.append(error)

        ended = threading.Event()
        async with self._client.event_writer(self._scope, "latency") as writer:
            reading = asyncio.ensure_future(read())
            reading.add_done_callback(
                lambda done: done.cancelled() or done.exception()
            )  # the first one counts

            def write(number: int) -> None:
                if ended.is_set():
                    return
                event = b"%0*d" % (_NUMBER_BYTES, number) + payload
                try:
                    ack = writer.write(event, f"key-{number % plan.keys}")
                except HeadraceError as error:
                    too_fast = ThrottledError(f"fewer than {plan.rate} events/s are taken: lower --rate")
                    failures.append(too_fast if isinstance(error, ThrottledError) else error)
                    ended.set()
                    return
                ack.add_done_callback(partial(on_acknowledged, number))
                on_progress(number + 1)

            began = _now() + 0.05
            loop = asyncio.get_running_loop()
            try:
                await loop.run_in_executor(None, _pace, loop, write, due, began, plan.rate, ended)
                await asyncio.sleep(0)  # the last one is written now
                if failures:
                    raise failures[0]
                await writer.flush()
                seconds = _now() - began
                if failures:
                    raise failures[0]
                await asyncio.wait_for(reading, _SETTLE_S)
            except TimeoutError:
                raise ConnectionLostError(_LATE) from None
            finally:
                ended.set()
                reading.cancel()
        size = count * max(plan.size, _NUMBER_BYTES)
        results = []
        for name, ends in (("acknowledged", acknowledged), ("read at the tail", seen)):
            times = [1000 * (at - then) for at, then in zip(ends, due, strict=True)]
            results.append(Result(name, count, size, seconds, times))
        return results

    async def _create(self, stream: str) -> None:
        scaling = ScalingPolicy.fixed(self._plan.segments)
        await self._client.create_stream(self._scope, stream, StreamConfiguration(scaling=scaling))


def _pace(
    loop: asyncio.AbstractEventLoop,
    write: Callable[[int], None],
    due: list[float],
    began: float,
    rate: int,
    ended: threading.Event,
) -> None:
    """Have each event written when it is due, until it is ``ended``.

    In a thread: timers of loops are a millisecond off.
    """
    for number in range(len(due)):
        due[number] = began + number / rate
        if ended.wait(max(0.0, due[number] - _now())):
            return
        loop.call_soon_threadsafe(write, number)
