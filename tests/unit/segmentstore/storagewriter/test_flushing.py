"""Waking up for what becomes due."""

import asyncio
from math import inf

import pytest

from headrace.segmentstore.storagewriter.config import StorageWriterConfig
from headrace.segmentstore.storagewriter.flushing import Flushing


class Schedule:
    """Has one segment, which is due at ``at``."""

    def __init__(self, at):
        self.at = at
        self.reached = asyncio.Event()
        self.looks = 0

    def advance(self, now):
        self.looks += 1
        if now >= self.at:
            self.reached.set()

    def wake_at(self):
        return inf if self.reached.is_set() else self.at

    def next_due(self, *, suspect):
        return None


@pytest.mark.parametrize("early_s", [0.0, 0.02])
async def test_a_timer_that_fires_too_early_makes_no_segment_wait_for_ever(monkeypatch, early_s):
    loop = asyncio.get_running_loop()
    call_at = loop.call_at

    def call_early(at, *args, **more):
        return call_at(max(at - early_s, loop.time()), *args, **more)

    monkeypatch.setattr(loop, "call_at", call_early)
    schedule = Schedule(loop.time() + 0.05)
    flushing = Flushing(None, schedule, StorageWriterConfig(), on_flushed=lambda: None, on_progress=None)
    running = asyncio.ensure_future(flushing.run(None))
    try:
        await asyncio.wait_for(schedule.reached.wait(), 120)
    finally:
        running.cancel()


async def test_what_is_due_within_a_millisecond_is_due_now():
    schedule = Schedule(asyncio.get_running_loop().time() + 0.0009)
    flushing = Flushing(None, schedule, StorageWriterConfig(), on_flushed=lambda: None, on_progress=None)
    running = asyncio.ensure_future(flushing.run(None))
    await schedule.reached.wait()
    running.cancel()
    assert schedule.looks == 1  # a loop that counts milliseconds would look again and again until then
