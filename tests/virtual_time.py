"""Virtual time for tests of asynchronous code.

A real timer is late on a busy machine, and then what it bounds, counts or hurries comes out otherwise.
A ``conftest.py`` that imports the hook applies it to all tests beside and below it. Tasks run in asyncio's
order, and each iteration of the loop takes a few microseconds, so that tests may poll.

A test that waits for what never comes, while something happens every now and then, is over after as many
callbacks as take a minute or so: more than ten times as many as the longest test has.
"""

import asyncio

from headrace.runtime.entropy import SeededEntropy
from headrace.testing.loop import SimulatedLoop

CALLBACKS_MAX = 3_000_000


def pytest_asyncio_loop_factories(item):
    if item.get_closest_marker("real_loop"):
        return {"real": asyncio.new_event_loop}
    return {"virtual": make_loop}


def make_loop():
    return SimulatedLoop(
        SeededEntropy(0),
        shuffle=False,
        iteration_s=5e-6,
        limit_s=1e6,
        callbacks_max=CALLBACKS_MAX,
    )
