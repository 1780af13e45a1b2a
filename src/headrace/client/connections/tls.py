"""The files of a client that encrypts, as its two kinds of connections want them."""

from __future__ import annotations

import ssl
from pathlib import Path

from headrace.client.config import ClientConfig
from headrace.errors import InvalidArgumentError
from headrace.rpc.quiet_grpc import grpc
from headrace.runtime.pem_files import find_mark


def tls_context(config: ClientConfig) -> ssl.SSLContext:
    """Return the context for connections to segment stores.

    Raises:
        InvalidArgumentError: a file cannot be read or does not hold what it should.
    """
    for path in (config.tls_authorities, config.tls_cert, config.tls_key):
        if path is not None:
            _read(path)
    try:
        context = ssl.create_default_context(cafile=config.tls_authorities)
    except (OSError, ValueError) as error:
        raise _unusable(config.tls_authorities, "authorities", error) from None
    context.check_hostname = config.tls_check_host
    if config.tls_cert is not None:
        try:
            context.load_cert_chain(config.tls_cert, config.tls_key, _refuse_to_ask)
        except (OSError, ValueError) as error:
            raise _unusable(config.tls_cert, "a certificate and its key", error) from None
    return context


def channel_credentials(config: ClientConfig) -> grpc.ChannelCredentials:
    """Return what encrypts connections to controllers. Raises as :func:`tls_context`."""
    certificate = None if config.tls_cert is None else _read(config.tls_cert)
    key_file = config.tls_key or config.tls_cert
    return grpc.ssl_channel_credentials(
        None if config.tls_authorities is None else _read(config.tls_authorities),
        None if key_file is None else _read(key_file),
        certificate,
    )


def _read(path: Path) -> bytes:
    try:
        content = Path(path).read_bytes()  # some give its name
    except OSError as error:
        raise _unusable(path, "certificates", error) from None
    if wrong := find_mark(content):
        raise InvalidArgumentError(f"TLS: {path} {wrong}")
    return content


def _refuse_to_ask() -> str:
    raise ValueError("the key is encrypted")


def _unusable(path: Path | None, what: str, error: Exception) -> InvalidArgumentError:
    reason = getattr(error, "strerror", None) or str(error)
    return InvalidArgumentError(f"TLS: {path} does not hold {what} in PEM form that can be used: {reason}")
