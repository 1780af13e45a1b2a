"""The certificates of a server, for gRPC."""

from __future__ import annotations

import grpc

from headrace.security.certificates import Certificates, ServerCertificates


def server_credentials(certificates: ServerCertificates) -> grpc.ServerCredentials:
    """Return credentials with which every new connection uses the certificates that are current then.

    gRPC asks clients for certificates if they must show them, or not at all.
    """
    required = certificates.clients_must_show_theirs
    in_use = certificates.current

    def configuration_of(current: Certificates) -> grpc.ServerCertificateConfiguration:
        authority = current.authority if required else None
        return grpc.ssl_server_certificate_configuration([(current.key, current.chain)], authority)

    def fetch() -> grpc.ServerCertificateConfiguration | None:  # in a thread of gRPC
        nonlocal in_use
        current = certificates.current
        if current is in_use:
            return None
        in_use = current
        return configuration_of(current)

    # The stubs do not know that None means: as before.
    return grpc.dynamic_ssl_server_credentials(configuration_of(in_use), fetch, required)  # type: ignore[arg-type]
