"""Read a stream without asyncio: event by event, resumed from a stored position, and as Arrow columns.

python examples/read_events.py [tcp://controller:9090]
"""

from local_server import server_uri

from headrace import StreamCut, connect


def main(uri: str) -> None:
    with connect(uri) as client:
        client.create_scope("examples")
        client.create_stream("examples", "words")
        with client.event_writer("examples", "words") as writer:
            writer.write_many([b"one", b"two", b"three", b"four", b"five"], "key")

        # Event by event, up to the tail as it is now. Without an end the reader would wait for more.
        with client.event_reader("examples", "words", end="tail") as reader:
            for event in reader:
                print(f"{event.data.decode()} at offset {event.offset}")
                if event.data == b"two":
                    break
            position = reader.position().as_text()

        # The position is text; store it anywhere and go on from there, here or on another machine.
        print(f"stopped at {position}")
        start = StreamCut.from_text(position)

        # Batches carry raw bytes; nothing is made per event until it is asked for.
        with client.event_reader("examples", "words", start=start, end="tail") as reader:
            for batch in reader.batches():
                print(f"{len(batch)} more: {[data.decode() for data in batch]}")
                print(f"as a column: {batch.to_arrow().type}, {batch.size_bytes} bytes")

        client.seal_stream("examples", "words")
        client.delete_stream("examples", "words")


if __name__ == "__main__":
    with server_uri() as uri:
        main(uri)
