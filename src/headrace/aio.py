"""The client for programs with asyncio: the names of :mod:`headrace`, to be awaited.

async with headrace.aio.connect("tcp://localhost:9090") as client:
    await client.create_scope("demo")
    await client.create_stream("demo", "orders")
    async with client.event_writer("demo", "orders") as writer:
        await writer.write(b"hello", "some key")
"""

from headrace.client import *
