"""One client per process and address: workers live on between micro-batches, and so do our connections.

Nothing is opened at import time, because Spark's worker daemons fork. A client notices a fork and connects
again by itself.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any, Final

from headrace.client.blocking import BlockingClient, BlockingTxnWriter, connect
from headrace.client.config import ClientConfig, ReaderConfig, WriterConfig
from headrace.client.credentials import Credentials
from headrace.errors import InvalidArgumentError
from headrace.limits import MIB
from headrace.spark.connection_options import ConnectionOptions

_CLIENTS_MAX: Final = 16
_WRITERS_MAX: Final = 64
_SECRET_CHARS_MAX: Final = 64 << 10

_WINDOW_BYTES_MAX: Final = 64 * MIB
"""Of a task's writer: several tasks share an executor, whose memory outside the virtual machine is small."""


class ClientCache:
    """Clients and transaction writers of this process, by what they connect to. Bounded; for any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clients: OrderedDict[ConnectionOptions, BlockingClient] = OrderedDict()
        self._writers: OrderedDict[tuple[ConnectionOptions, str, str, int], BlockingTxnWriter] = OrderedDict()

    def client(self, connection: ConnectionOptions) -> BlockingClient:
        """Return the client of a system; never close it."""
        with self._lock:
            client = self._clients.get(connection)
            if client is None:
                client = self._clients[connection] = connect(
                    connection.controller, client_configuration(connection)
                )
                if len(self._clients) > _CLIENTS_MAX:
                    self._clients.popitem(last=False)  # dropped, not closed: a task may still be reading
            self._clients.move_to_end(connection)
            return client

    def txn_writer(
        self, connection: ConnectionOptions, scope: str, stream: str, lease_ms: int
    ) -> BlockingTxnWriter:
        """Return the writer of transactions on a stream, which pings the open ones; never close it."""
        client = self.client(connection)
        key = (connection, scope, stream, lease_ms)
        with self._lock:
            writer = self._writers.get(key)
            if writer is None:
                writer = self._writers[key] = client.txn_writer(scope, stream, lease_ms=lease_ms)
                if len(self._writers) > _WRITERS_MAX:
                    self._writers.popitem(last=False)
            self._writers.move_to_end(key)
            return writer

    def after_fork(self) -> None:
        """In the child: the lock may be held by a thread that does not exist here, writers by its loop."""
        self._lock = threading.Lock()
        self._writers.clear()


_cache: Final = ClientCache()
client_for: Final = _cache.client
txn_writer_for: Final = _cache.txn_writer

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_cache.after_fork)


def client_configuration(connection: ConnectionOptions) -> ClientConfig:
    """Return what a client is made with.

    What the options leave open is up to the environment of this process, be it driver or executor.
    """
    given: dict[str, Any] = {}
    credentials = _credentials(connection)
    if credentials is not None:
        given["credentials"] = credentials
    if connection.authorities_file:
        given["tls_authorities"] = Path(connection.authorities_file)
    return ClientConfig(
        tls_cert=Path(connection.cert_file) if connection.cert_file else None,
        tls_key=Path(connection.key_file) if connection.key_file else None,
        tls_check_host=connection.check_host,
        call_timeout_s=connection.call_timeout_ms / 1000,
        control_attempts=connection.attempts,
        reader=ReaderConfig(read_bytes_max=connection.read_bytes),
        writer=WriterConfig(window_bytes_max=_WINDOW_BYTES_MAX),
        **given,
    )


def _credentials(connection: ConnectionOptions) -> Credentials | None:
    if connection.token or connection.token_file:
        token = connection.token or _read_secret("auth_token_file", connection.token_file)
        return Credentials(method="Bearer", token=token)
    if connection.user:
        password = connection.password or _read_secret("password_file", connection.password_file)
        return Credentials.basic(connection.user, password)
    return None


def _read_secret(option: str, path: str) -> str:
    """Return the first line of a file, which is there on each host that opens clients."""
    try:
        with Path(path).open(encoding="utf-8") as stream:
            return stream.readline(_SECRET_CHARS_MAX).rstrip("\r\n")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise InvalidArgumentError(f"option {option}: {path} cannot be read: {reason}") from None
