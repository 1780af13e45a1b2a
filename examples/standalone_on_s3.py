"""Chunks in S3: a server writes events, its store gets objects, and a restart reads them from there.

    python examples/standalone_on_s3.py                             # starts a local S3 server (versitygw)
    python examples/standalone_on_s3.py 's3://bucket/empty-prefix?region=eu-west-1'    # uses yours

Needs the extra ``objects``: ``pip install '.[objects]'`` in a checkout.
Credentials come from the environment or ``~/.aws``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from headrace import connect
from headrace.testing import LocalServer
from headrace.testing.local_s3 import LocalS3

EVENTS = 2_000
EVENT = b"an event of a kilobyte".ljust(1_000, b".")


@contextmanager
def store() -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the URI of a store, and what a server's environment needs for it."""
    if len(sys.argv) > 1:
        yield sys.argv[1], {}
        return
    with LocalS3() as local:
        yield local.uri("example"), local.environment


def main() -> None:
    with (
        store() as (uri, environment),
        LocalServer(None, "--storage", uri, environment=environment) as server,
    ):
        print(f"chunks are in {uri}")
        with connect(server.uri) as client:
            client.create_scope("demo")
            client.create_stream("demo/orders")
            with client.event_writer("demo/orders") as writer:
                writer.write_many([EVENT] * EVENTS, ["customer-7"] * EVENTS)
        print(f"{EVENTS} events are durable in the log; a clean stop moves them to the store")
        server.stop()
        server.start()
        with connect(server.uri) as client, client.event_reader("demo/orders", end="tail") as reader:
            found = sum(1 for event in reader if event.data == EVENT)
        print(f"{found} of them came back, from objects of the store")
        assert found == EVENTS


if __name__ == "__main__":
    main()
