"""Events whose order per key is checked, while controllers come and go."""

import asyncio
from collections import defaultdict

from tests.unit.controller.calls import eventually


class KeyedEvents:
    """Events whose order per key is checked: written until told to stop."""

    def __init__(self, client, stream, keys=6):
        self._client = client
        self.stream = stream
        self._keys = [f"key-{number}" for number in range(keys)]
        self._stopping = asyncio.Event()
        self.written = 0

    async def write(self):
        async with self._client.event_writer("s", self.stream) as writer:
            while not self._stopping.is_set():
                for key in self._keys:
                    writer.write(f"{key} {self.written}".encode(), key)
                await writer.flush()
                self.written += 1

    async def grow(self, rounds=20):
        """Wait until so many more rounds are acknowledged."""
        goal = self.written + rounds

        async def has_grown():
            return self.written >= goal

        await eventually(has_grown, 30)

    def stop(self):
        self._stopping.set()

    async def check(self, client):
        found = defaultdict(list)
        for event in await read(client, self.stream):
            key, number = event.decode().split()
            found[key].append(int(number))
        assert found == {key: list(range(self.written)) for key in self._keys}


async def read(client, stream):
    async with client.event_reader("s", stream, end="tail") as reader:
        return [event.data async for event in reader]
