"""Works on buckets that fail: how soon they are begun again, and what is said of it."""

import asyncio
import logging

from headrace.controller.buckets.works import Works
from headrace.errors import UnreachableError
from headrace.testing.simulation import simulate


class Failing:
    """A work that is well for some seconds, and fails then, each time in the same way."""

    name = "failing"

    def __init__(self, well_s, error):
        self.well_s, self.error = well_s, error
        self.pauses = []
        self._failed_at = None

    async def run(self, _bucket):
        loop = asyncio.get_running_loop()
        if self._failed_at is not None:
            self.pauses.append(loop.time() - self._failed_at)
        await asyncio.sleep(self.well_s)
        self._failed_at = loop.time()
        raise self.error


def run(work, seconds):
    async def scenario(sim):
        works = Works(sim.entropy)
        works.add(work)
        works.begin(0)
        await asyncio.sleep(seconds)
        await works.stop()

    simulate(0, scenario)
    return work


def test_a_work_that_fails_now_and_then_is_begun_again_at_once_each_time():
    work = run(Failing(60.0, UnreachableError("a store is away")), 1800)
    assert len(work.pauses) > 25
    assert max(work.pauses) < 0.2


def test_a_work_that_fails_again_and_again_is_begun_ever_more_seldom():
    work = run(Failing(0.1, UnreachableError("a store is away")), 600)
    assert work.pauses[0] < 0.2
    assert 10 < work.pauses[-1] < 31


def test_what_may_pass_is_said_in_one_line(caplog):
    with caplog.at_level(logging.WARNING):
        run(Failing(60.0, ExceptionGroup("of tasks", [UnreachableError("a store is away")])), 70)
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        run(Failing(60.0, ExceptionGroup("of tasks", [UnreachableError("x"), KeyError("bug")])), 70)
    assert [record.levelname for record in caplog.records] == ["WARNING", "ERROR"]
