"""The client without ``await``: the same names, for threads, notebooks, command lines and Spark's workers.

    with connect("tcp://localhost:9090") as client:
        client.create_stream("demo", "orders")
        with client.event_writer("demo", "orders") as writer:
            writer.write(b"hello", "some key").wait()

Where servers have TLS and users: ``connect("tls://host:9090", ClientConfig(credentials=
Credentials.basic("me", password), tls_authorities=Path("ca.pem")))``, or ``HEADRACE_USER``,
``HEADRACE_PASSWORD`` and ``HEADRACE_TLS_CA`` in the environment.

A private thread runs the event loop. A client may be used by many threads, pickled (it connects again where
it is unpickled) and carried through a fork (it connects again in the child).
"""

from headrace.client.blocking.byte_streams import BlockingByteReader, BlockingByteWriter
from headrace.client.blocking.client import BlockingClient, connect
from headrace.client.blocking.event_times import BlockingEventWriter, BlockingTimeWindows
from headrace.client.blocking.readers import BlockingEventReader, BlockingSegmentRange
from headrace.client.blocking.tables import BlockingKeyValueTable
from headrace.client.blocking.writers import (
    BlockingAck,
    BlockingTransaction,
    BlockingTxnWriter,
    BlockingWriter,
)

__all__ = [
    "BlockingAck",
    "BlockingByteReader",
    "BlockingByteWriter",
    "BlockingClient",
    "BlockingEventReader",
    "BlockingEventWriter",
    "BlockingKeyValueTable",
    "BlockingSegmentRange",
    "BlockingTimeWindows",
    "BlockingTransaction",
    "BlockingTxnWriter",
    "BlockingWriter",
    "connect",
]
