"""The certificate of a server, its key, and the authorities of its clients: loaded, checked, exchanged."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import ssl
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from headrace.errors import InvalidArgumentError
from headrace.limits import MIB
from headrace.runtime.clock import Clock
from headrace.runtime.pem_files import find_mark
from headrace.security.tls_config import TlsConfig

_logger = logging.getLogger(__name__)

LOOK_S: Final = 1.0
"""How often files are looked at. A change is taken once it has been the same in two looks."""

_FILE_BYTES_MAX: Final = 1 * MIB

_VERIFY: Final = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}

_NO_CHECK_TIME: Final = 0x200000
"""OpenSSL's X509_V_FLAG_NO_CHECK_TIME, for which Python has no name."""

_Signature = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Certificates:
    """What was read of all files at one time."""

    context: ssl.SSLContext
    chain: bytes
    key: bytes = field(repr=False)
    authority: bytes | None
    description: str
    """Subject, names, end and fingerprint of the server's certificate."""

    warning: str | None


class ServerCertificates:
    """The certificates that a server uses for new connections. Thread-safe."""

    def __init__(self, config: TlsConfig, clock: Clock) -> None:
        """Load them.

        Raises:
            InvalidArgumentError: a file is missing or not what it should be; the message names it.
        """
        self._config = config
        self._clock = clock
        self._tried: _Signature | None = _signature_of(config)
        """Of the files that were loaded last, whether with success or not."""
        self._seen: _Signature | None = self._tried
        self.current = load(config, clock)
        self._log_current()

    def context(self) -> ssl.SSLContext:
        """Return the context of a new connection."""
        return self.current.context

    @property
    def clients_must_show_theirs(self) -> bool:
        return self._config.client_certs == "required"

    async def watch(self) -> None:
        """Exchange the certificates whenever their files change."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(LOOK_S)
            await loop.run_in_executor(None, self.look)  # it reads files, and signs once

    def look(self) -> None:
        """Load the files again if they changed before the last look and not since.

        Files that do not fit leave the certificates as they are; a line in the log says why, once.
        """
        seen = self._seen
        try:
            self._seen = _signature_of(self._config)
        except InvalidArgumentError:
            self._seen = None  # a file is missing, perhaps only now
        if self._seen == self._tried or self._seen != seen:
            return
        self._tried = self._seen
        try:
            loaded = load(self._config, self._clock)
        except InvalidArgumentError as error:
            _logger.warning("changed certificates are not used, those before them are: %s", error)
            return
        self.current = loaded
        self._log_current()

    def _log_current(self) -> None:
        current = self.current
        _logger.info("new connections are encrypted with the certificate of %s", current.description)
        if current.warning is not None:
            _logger.warning("%s", current.warning)


def load(config: TlsConfig, clock: Clock) -> Certificates:
    """Read and check all files of ``config``.

    Raises:
        InvalidArgumentError: one is missing or not what it should be; the message names it.
    """
    cert, key = config.cert, config.key
    assert cert is not None
    assert key is not None
    before = _signature_of(config)
    chain = _read("tls.cert", cert, b"CERTIFICATE-----", "certificate")
    key_bytes = _read("tls.key", key, b"PRIVATE KEY-----", "private key")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    with _saying(f"tls.cert = {cert!r} and tls.key = {key!r}"):
        context.load_cert_chain(cert, key, password=_no_password(key))
    authority = None
    if config.authority is not None:
        authority = _read("tls.authority", config.authority, b"CERTIFICATE-----", "certificate")
        with _saying(f"tls.authority = {config.authority!r}"):
            context.load_verify_locations(cadata=_text_of(authority))
        context.verify_mode = _VERIFY[config.client_certs]
    if _signature_of(config) != before:
        raise InvalidArgumentError(f"tls.cert = {cert!r} or tls.key = {key!r} changed while they were read")
    with _saying(f"tls.cert = {cert!r} cannot be shown to clients"):
        shown, fingerprint = _show(context, chain)
    return Certificates(
        context,
        chain,
        key_bytes,
        authority,
        _describe(shown, fingerprint),
        _find_warning(cert, shown, clock.now_ms() / 1000),
    )


def _signature_of(config: TlsConfig) -> _Signature:
    """Return what changes with the files. Raises InvalidArgumentError if one is missing."""
    found = []
    for name in ("cert", "key", "authority"):
        path = getattr(config, name)
        if path is not None:
            try:
                status = Path(path).stat()
            except OSError as error:
                raise InvalidArgumentError(f"tls.{name} = {path!r}: {_words_of(error)}") from None
            found.append((status.st_mtime_ns, status.st_size, status.st_ino))
    return tuple(found)


def _read(setting: str, path: str, mark: bytes, what: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            content = file.read(_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise InvalidArgumentError(f"{setting} = {path!r}: {_words_of(error)}") from None
    if len(content) > _FILE_BYTES_MAX:
        raise InvalidArgumentError(f"{setting} = {path!r} is larger than {_FILE_BYTES_MAX} bytes")
    if wrong := find_mark(content):
        raise InvalidArgumentError(f"{setting} = {path!r} {wrong}")
    if b"-----BEGIN " not in content or mark not in content:
        raise InvalidArgumentError(f"{setting} = {path!r} holds no {what} in PEM form")
    return content


def _words_of(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def _no_password(path: str) -> Any:
    def refuse() -> str:
        raise InvalidArgumentError(
            f"tls.key = {path!r} is encrypted: store it without a password, readable for the server only"
        )

    return refuse


@contextlib.contextmanager
def _saying(what: str) -> Any:
    """Raise errors of OpenSSL as what they mean to an operator."""
    try:
        yield
    except ssl.SSLCertVerificationError as error:
        raise InvalidArgumentError(f"{what}: {error.verify_message}") from None
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise InvalidArgumentError(f"{what} do not belong together: the key is another one's") from None
        reason = (error.reason or "not readable").lower().replace("_", " ")
        raise InvalidArgumentError(f"{what}: {reason}") from None
    except OSError as error:
        raise InvalidArgumentError(f"{what}: {_words_of(error)}") from None


def _text_of(pem: bytes) -> str:
    return pem.decode("ascii", "ignore")  # comments may be anything


def _show(context: ssl.SSLContext, chain: bytes) -> tuple[dict[str, Any], str]:
    """Shake hands with a client in memory that trusts ``chain``, at any time.

    Returns:
        The certificate as the client sees it, and its fingerprint.

    Raises:
        ssl.SSLError: the client does not accept it.
    """
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname = False
    trusting.load_verify_locations(cadata=_text_of(chain))
    trusting.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | _NO_CHECK_TIME
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(to_client, to_server)
    server = context.wrap_bio(to_server, to_client, server_side=True)
    while True:
        try:
            client.do_handshake()
        except ssl.SSLWantReadError:
            with contextlib.suppress(ssl.SSLWantReadError):
                server.do_handshake()
        else:
            break
    shown, encoded = client.getpeercert(), client.getpeercert(binary_form=True)
    assert shown is not None
    assert encoded is not None
    return shown, hashlib.sha256(encoded).hexdigest()


def _describe(shown: dict[str, Any], fingerprint: str) -> str:
    subject = ", ".join(value for part in shown.get("subject", ()) for _, value in part)
    names = ", ".join(str(value) for _, value in shown.get("subjectAltName", ()))
    until = datetime.fromtimestamp(ssl.cert_time_to_seconds(shown["notAfter"]), UTC)
    return (
        f"{subject or names or '(no subject)'}, for {names or 'no host'}, "
        f"not after {until:%Y-%m-%dT%H:%M:%SZ}, SHA-256 {fingerprint}"
    )


def _find_warning(cert: str, shown: dict[str, Any], now_s: float) -> str | None:
    begin, end = (ssl.cert_time_to_seconds(shown[name]) for name in ("notBefore", "notAfter"))
    if begin <= now_s <= end:
        return None
    what, when = ("is not valid before", begin) if now_s < begin else ("expired at", end)
    date = datetime.fromtimestamp(when, UTC)
    return f"tls.cert = {cert!r} {what} {date:%Y-%m-%dT%H:%M:%SZ}: clients refuse it"
