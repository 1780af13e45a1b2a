"""Settings of sessions with ZooKeeper. Secrets are never settings, only the files that hold them."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.errors import InvalidArgumentError
from headrace.runtime.settings import tunable


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperConfig:
    """How one process takes part."""

    session_s: float = tunable(
        6.0,
        low=0.5,
        high=60.0,
        help="Seconds without a sign of life after which ZooKeeper ends the session; its servers may grant "
        "another time.",
    )
    margin_s: float = tunable(
        1.0,
        low=0.05,
        high=30.0,
        help="Seconds by which the lease ends before the session may; at least half a tick of the servers.",
    )
    tls_authority: str | None = tunable(
        None, help="File with the authorities that issue the servers' certificates; with it TLS is spoken."
    )
    tls_cert: str | None = tunable(None, help="File with the certificate that is shown to the servers.")
    tls_key: str | None = tunable(None, help="File with the private key of `tls_cert`, not encrypted.")
    digest_file: str | None = tunable(
        None,
        help="File with USER:PASSWORD for ZooKeeper; nodes are made for that identity alone.",
    )

    def check(self) -> None:
        """Raises InvalidArgumentError."""
        if self.margin_s >= self.session_s:
            raise InvalidArgumentError(
                f"margin_s = {self.margin_s:g} leaves no lease of session_s = {self.session_s:g}"
            )
        if (self.tls_cert is None) != (self.tls_key is None):
            raise InvalidArgumentError("tls_cert and tls_key belong to each other: give both or neither")
        if self.tls_cert is not None and self.tls_authority is None:
            raise InvalidArgumentError("tls_cert needs tls_authority, with which TLS is spoken")
