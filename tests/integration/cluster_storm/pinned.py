"""Clients that go on asking a store at its own address, whoever owns what: history of single segments.

A store that has lost a container, or slept, may answer nothing that its successor does not know: what they
were told has to be one linear history.
"""

import asyncio

from headrace.runtime.entropy import SeededEntropy
from headrace.testing.history import History, Outcome
from headrace.testing.linearizability import check_segments
from tests.simulation.workloads.segment_clients import SegmentClient

PAUSE_S = 0.1


class Pinned:
    """For each segment a writer and a reader that go to any store, and ask again elsewhere if they must."""

    def __init__(self, segments, stores, seed):
        addresses = [each.endpoint for each in stores]
        self.history = History(asyncio.get_running_loop().time)
        self.stopping = False
        entropy = SeededEntropy(f"{seed}/pinned")
        self._writers = [
            SegmentClient(f"writer of {each}", each, addresses, self.history, entropy.fork(f"w/{each}"))
            for each in segments
        ]
        self._readers = [
            SegmentClient(
                f"{store} of {each}", each, [address], self.history, entropy.fork(f"{store}/{each}")
            )
            for each in segments
            for store, address in enumerate(addresses)
        ]

    def jobs(self):
        return {each.name: self._write(each) for each in self._writers} | {
            each.name: self._look(each) for each in self._readers
        }

    async def _write(self, client):
        number = 0
        while not self.stopping:
            await client.append(b"%s %d," % (client.name.encode(), number))
            number += 1
            await asyncio.sleep(PAUSE_S)
        client.close()

    async def _look(self, client):
        """Ask one store how long the segment is, and what its end is."""
        while not self.stopping:
            found = await client.info()
            if found is not None and found.length:
                await client.read(max(0, found.length - 100))
            await asyncio.sleep(PAUSE_S)
        client.close()

    def check(self):
        check_segments(self.history)

    @property
    def answers(self):
        return sum(each.outcome is Outcome.OK for each in self.history.operations)
