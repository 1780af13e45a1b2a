"""Write events three ways: one and wait, many that overlap, and a whole batch at once.

python examples/write_events.py [tcp://controller:9090]
"""

import asyncio

from local_server import server_uri

from headrace import ScalingPolicy, StreamConfiguration, connect


async def main(uri: str) -> None:
    async with connect(uri) as client:
        await client.create_scope("examples")
        two_segments = StreamConfiguration(scaling=ScalingPolicy.fixed(2))
        await client.create_stream("examples", "readings", two_segments)

        async with client.event_writer("examples", "readings") as writer:
            # Awaiting what write returns means: this event is durable.
            await writer.write(b"21.5", routing_key="kitchen")

            # Not awaiting lets blocks overlap. Events of one key keep their order; drain waits for room.
            for number in range(10_000):
                writer.write(b"%d" % number, routing_key=f"sensor-{number % 10}")
                if number % 1000 == 0:
                    await writer.drain()

            # A batch costs no Python object per event if it comes as an Arrow array.
            events = [b"%d" % number for number in range(100_000)]
            await writer.write_many(events, "batch")

            # Together or not at all, next to each other.
            await writer.write_atomic([b"begin", b"end"], routing_key="pair")
        # Leaving the block waited until everything was durable.

        tail = await client.tail_cut("examples", "readings")
        print(f"the stream ends at {tail}")
        await client.seal_stream("examples", "readings")
        await client.delete_stream("examples", "readings")


if __name__ == "__main__":
    with server_uri() as uri:
        asyncio.run(main(uri))
