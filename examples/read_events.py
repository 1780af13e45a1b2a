"""Read a stream: event by event, resumed from a stored position, and as Arrow columns.

python examples/read_events.py [tcp://controller:9090]
"""

from local_server import server_uri

import headrace


def main(uri: str) -> None:
    with headrace.connect(uri) as client:
        client.create_scope("examples")
        client.create_stream("examples/words")
        client.write("examples/words", ["one", "two", "three", "four", "five"], key="key")

        # Everything there is now. With follow=True the loop would wait for more.
        print([event.data.decode() for event in client.read("examples/words")])

        # A reader knows its position. Without an end it would wait for more.
        with client.event_reader("examples/words", end="tail") as reader:
            for event in reader:
                print(f"{event.data.decode()} at offset {event.offset}")
                if event.data == b"two":
                    break
            position = reader.position().as_text()

        # The position is text; store it anywhere and go on from there, here or on another machine.
        print(f"stopped at {position}")

        # Batches carry raw bytes; nothing is made per event until it is asked for.
        with client.event_reader("examples/words", start=position, end="tail") as reader:
            for batch in reader.batches():
                print(f"{len(batch)} more: {[data.decode() for data in batch]}")
                print(f"as a column: {batch.to_arrow().type}, {batch.size_bytes} bytes")

        client.seal_stream("examples/words")
        client.delete_stream("examples/words")


if __name__ == "__main__":
    with server_uri() as uri:
        main(uri)
