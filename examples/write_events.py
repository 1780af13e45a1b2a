"""Write events four ways: all at once; one and wait; many that overlap; and a batch as one.

python examples/write_events.py [tcp://controller:9090]
"""

from local_server import server_uri

import headrace


def main(uri: str) -> None:
    with headrace.connect(uri) as client:
        client.create_scope("examples")
        client.create_stream("examples/readings", segments=2)

        # All at once: when the call returns, everything is durable.
        readings = [{"sensor": "cellar", "value": 12.5}, {"sensor": "roof", "value": 31.0}]
        client.write("examples/readings", readings, key=lambda each: each["sensor"], serializer="json")

        # A program that goes on writing keeps a writer open.
        with client.event_writer("examples/readings") as writer:
            # Waiting for what write returns means: this event is durable.
            writer.write(b"21.5", key="kitchen").wait()

            # Not waiting lets blocks overlap. Events of one key keep their order; a full window waits.
            for number in range(10_000):
                writer.write(b"%d" % number, key=f"sensor-{number % 10}")

            # A batch costs no Python object per event if it comes as an Arrow array.
            events = [b"%d" % number for number in range(100_000)]
            writer.write_many(events, "batch").wait()

            # Together or not at all, next to each other.
            writer.write_atomic([b"begin", b"end"], key="pair").wait()
        # Leaving the block waited until everything was durable.

        tail = client.tail_cut("examples/readings")
        print(f"the stream ends at {tail}")
        client.seal_stream("examples/readings")
        client.delete_stream("examples/readings")


if __name__ == "__main__":
    with server_uri() as uri:
        main(uri)
