"""Certificates for tests, in files as an operator has them."""

import ssl
from datetime import UTC, datetime
from pathlib import Path

import trustme


class CertificateFiles:
    """An authority, the server's pair of files for this machine, and one for clients."""

    def __init__(self, directory, authority=None, **options):
        self.directory = Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.authority = authority or trustme.CA()
        self.ca = self.directory / "authority.pem"
        self.cert, self.key = self.directory / "server.pem", self.directory / "server.key"
        self.client = self.directory / "client.pem"
        self.authority.cert_pem.write_to_path(self.ca)
        issued = self.authority.issue_cert("client@example.org")
        issued.private_key_and_cert_chain_pem.write_to_path(self.client)
        self.exchange(**options)

    @property
    def arguments(self):
        """Options of ``headrace standalone``."""
        return ("--tls-cert", str(self.cert), "--tls-key", str(self.key))

    def exchange(self, **options):
        """Issue the server's certificate anew, and put it in the place of the one before."""
        pair = self.authority.issue_cert("localhost", "127.0.0.1", **options)
        put(self.cert, b"".join(each.bytes() for each in pair.cert_chain_pems))
        put(self.key, pair.private_key_pem.bytes())

    def trusting(self, *, shows=False):
        """What a client uses that trusts the authority; with ``shows`` it shows a certificate of it."""
        context = ssl.create_default_context(cafile=self.ca)
        if shows:
            context.load_cert_chain(self.client)
        return context


def put(path, content):
    """Replace a file in one step."""
    beside = path.with_name(f"{path.name}.new")
    beside.write_bytes(content)
    beside.replace(path)


EXPIRED = {"not_after": datetime(2001, 2, 3, tzinfo=UTC)}
