"""Why TLS does not come about, out of what two libraries say: sentences that name what helps."""

from __future__ import annotations

import ssl
from typing import Final

from headrace.errors import TlsError

_TRUST: Final = (
    "--tls-ca FILE, HEADRACE_TLS_CA or ClientConfig.tls_authorities names the file of its authority"
)

CERTIFICATE_HINT: Final = (
    "if the server wants certificates of clients: ClientConfig.tls_cert and tls_key name the files of one"
)


def server_speaks_tls(server: str) -> TlsError:
    """The client speaks plainly, the server does not."""
    return TlsError(f"{server} speaks TLS and this client does not: connect with tls:// (REST: https://)")


def server_is_plain(server: str) -> TlsError:
    """The client encrypts, the server does not."""
    return TlsError(
        f"{server} does not speak TLS: connect with tcp:// (REST: http://) if that is meant to be so"
    )


def _not_trusted(server: str, reason: str) -> TlsError:
    low = reason.lower()
    if "expired" in low:
        return TlsError(
            f"the certificate of {server} has expired: the server needs another one, unless the clock of this"
            " machine is ahead"
        )
    if "not yet valid" in low:
        return TlsError(f"the certificate of {server} is not valid yet: compare the clocks of both machines")
    if "hostname" in low or "mismatch" in low:
        return TlsError(
            f"the certificate of {server} is for other names: connect by one of them, or let the server"
            " advertise one"
        )
    return TlsError(f"the certificate of {server} is not trusted ({reason}): {_TRUST}")


def failure_of_socket(error: BaseException | None, server: str) -> TlsError | None:
    """Return what an error of Python's TLS means; None: try again."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _not_trusted(server, error.verify_message.rstrip("."))
    if not isinstance(error, ssl.SSLError):
        return None
    reason = error.reason or ""
    if reason in {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"}:
        return server_is_plain(server)
    if "ALERT" in reason:
        return TlsError(
            f"{server} refuses this client ({reason.lower().replace('_', ' ')}): {CERTIFICATE_HINT}"
        )
    return None


def failure_of_channel(details: str, server: str) -> TlsError | None:
    """Return what gRPC's text about a failed connection means; None: nothing about TLS, so try again."""
    if "Hostname Verification Check failed" in details:
        return _not_trusted(server, "hostname mismatch")
    _, failed, reason = details.partition("CERTIFICATE_VERIFY_FAILED")
    if failed:
        return _not_trusted(server, reason.strip(": ").partition(":")[0] or "verification failed")
    if "WRONG_VERSION_NUMBER" in details:
        return server_is_plain(server)
    if "ALPN" in details:
        return TlsError(f"{server} speaks TLS but not gRPC: is that the port of a controller?")
    if "ALERT" in details and "SSL_ERROR_SSL" in details:
        return TlsError(f"{server} refuses this client: {CERTIFICATE_HINT}")
    return None
