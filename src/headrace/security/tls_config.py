"""Settings of encryption. Keys are never settings, only the files that hold them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headrace.errors import InvalidArgumentError
from headrace.runtime.settings import tunable


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsConfig:
    """Encryption of all three ports. Without ``cert`` there is none. All files are PEM, and read again when
    they change.
    """

    cert: str | None = tunable(None, help="File with the server's certificate, then those that issued it.")
    key: str | None = tunable(None, help="File with the private key of `cert`, not encrypted.")
    authority: str | None = tunable(
        None, help="File with the authorities whose certificates clients may show."
    )
    client_certs: Literal["none", "optional", "required"] = tunable(
        "none",
        help="Whether clients show certificates of `authority`; gRPC does not ask for optional ones.",
    )

    @property
    def enabled(self) -> bool:
        return self.cert is not None

    def check(self) -> None:
        """Raises InvalidArgumentError if files are missing that belong to each other."""
        if (self.cert is None) != (self.key is None):
            raise InvalidArgumentError(
                "tls.cert and tls.key belong to each other: give both (--tls-cert, --tls-key) or neither"
            )
        if self.client_certs != "none" and (self.cert is None or self.authority is None):
            raise InvalidArgumentError(
                f"tls.client_certs = {self.client_certs!r} needs tls.cert, tls.key and tls.authority"
            )
        if self.client_certs == "none" and self.authority is not None:
            raise InvalidArgumentError(
                "tls.authority is for certificates of clients: set tls.client_certs to optional or required"
            )
