"""Entry to a running system: connect to its controllers, then ask for streams, writers and readers.

async with connect("tcp://localhost:9090") as client:
    await client.create_stream("demo", "orders")
    async with client.event_writer("demo", "orders") as writer:
        await writer.write(b"hello", "some key")
"""

from __future__ import annotations

from headrace.client.config import ClientConfig, default_uri
from headrace.client.face.batches import BatchFace
from headrace.client.face.byte_streams import ByteStreamFace
from headrace.client.face.reader_groups import ReaderGroupFace
from headrace.client.face.tables import TableFace
from headrace.client.face.transactions import TransactionFace
from headrace.client.public_calls import public_call
from headrace.client.scoped_name import named
from headrace.client.stream import Stream, StreamClient
from headrace.runtime.entropy import Entropy, SystemEntropy


@public_call
def connect(
    uri: str | None = None, config: ClientConfig | None = None, *, entropy: Entropy | None = None
) -> Client:
    """Return a client of the controllers at ``uri``. Nothing is sent before the first call.

    Call it where an event loop runs; the client belongs to that loop.

    Args:
        uri: ``tcp://host:9090``, or ``tls://``; several addresses are separated by commas. By default
            ``HEADRACE_URI`` of the environment, or ``tcp://localhost:9090``.
        config: everything else. By default credentials and authorities are those of the environment:
            ``HEADRACE_USER``, ``HEADRACE_PASSWORD``, ``HEADRACE_TLS_CA``.
        entropy: source of ids and jitter; the system's if none is given.

    Raises:
        InvalidArgumentError: the URI makes no sense, or a file of TLS cannot be used.
    """
    return Client(
        uri if uri is not None else default_uri(), config or ClientConfig(), entropy or SystemEntropy()
    )


class Client(StreamClient, BatchFace, ByteStreamFace, ReaderGroupFace, TableFace, TransactionFace):
    """One connection to the system, shared by everything that is made from it. Used on one loop.

    Where a scope and a stream are wanted, ``"scope/stream"`` will do.

    >>> async with headrace.aio.connect("tcp://localhost:9090") as client:
    ...     scopes = [scope async for scope in client.list_scopes()]
    """

    @named
    def stream(self, scope: str, stream: str) -> Stream:
        """Return a stream as an object. Nothing is asked, and it need not exist.

        >>> orders = client.stream("demo/orders")
        """
        return Stream(self, scope, stream)
