"""Write events three ways: one and wait, many that overlap, and a whole batch at once.

python examples/write_events.py [tcp://controller:9090]
"""

from local_server import server_uri

from headrace import ScalingPolicy, StreamConfiguration, connect


def main(uri: str) -> None:
    with connect(uri) as client:
        client.create_scope("examples")
        two_segments = StreamConfiguration(scaling=ScalingPolicy.fixed(2))
        client.create_stream("examples", "readings", two_segments)

        with client.event_writer("examples", "readings") as writer:
            # Waiting for what write returns means: this event is durable.
            writer.write(b"21.5", routing_key="kitchen").wait()

            # Not waiting lets blocks overlap. Events of one key keep their order; a full window waits.
            for number in range(10_000):
                writer.write(b"%d" % number, routing_key=f"sensor-{number % 10}")

            # A batch costs no Python object per event if it comes as an Arrow array.
            events = [b"%d" % number for number in range(100_000)]
            writer.write_many(events, "batch").wait()

            # Together or not at all, next to each other.
            writer.write_atomic([b"begin", b"end"], routing_key="pair").wait()
        # Leaving the block waited until everything was durable.

        tail = client.tail_cut("examples", "readings")
        print(f"the stream ends at {tail}")
        client.seal_stream("examples", "readings")
        client.delete_stream("examples", "readings")


if __name__ == "__main__":
    with server_uri() as uri:
        main(uri)
