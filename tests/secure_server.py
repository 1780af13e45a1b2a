"""A server with certificates and users, for clients of every kind."""

from headrace.client import ClientConfig, Credentials, blocking, connect
from headrace.testing import LocalServer
from headrace.testing.local_server import HEADRACE
from tests import programs
from tests.certificates import CertificateFiles
from tests.cluster_server import ClusterServer

TOKENS_S = 6
"""How long a delegation token is valid; clients renew it 5 s before."""

_SALES = "prn::/scope:sales"

USERS = {
    "admin": ("admin-password", "prn::*,READ_UPDATE"),
    "writer": ("writer-password", f"{_SALES},READ_UPDATE", f"{_SALES}/*,READ_UPDATE"),
    "reader": ("reader-password", f"{_SALES},READ", f"{_SALES}/*,READ"),
    "narrow": (
        "narrow-password",
        f"{_SALES},READ",
        f"{_SALES}/stream:shared,READ",
        f"{_SALES}/reader-group:g-narrow*,READ",
    ),
    "streamer": ("streamer-password", f"{_SALES}/stream:shared,READ_UPDATE"),
    "table": ("table-password", f"{_SALES}/key-value-table:table,READ_UPDATE"),
    "stranger": ("stranger-password", "prn::/scope:other,READ_UPDATE", "prn::/scope:other/*,READ_UPDATE"),
    # The Rust client keeps the state of a reader group in a table with the group's name.
    "rustling": (
        "rustling-password",
        f"{_SALES}/stream:shared,READ_UPDATE",
        f"{_SALES}/key-value-table:rustling,READ_UPDATE",
    ),
}


class _Secure:
    """Its users are ``USERS``. Clients know it by its name: some check no certificate of an address."""

    def _settings(self, directory):
        self.certificates = CertificateFiles(directory / "certificates")
        return {
            "HEADRACE_ADVERTISE": "localhost",
            "HEADRACE_TLS__CERT": str(self.certificates.cert),
            "HEADRACE_TLS__KEY": str(self.certificates.key),
            "HEADRACE_AUTH__TOKEN_LIFETIME_S": str(TOKENS_S),
            "HEADRACE_AUTH__TOKEN_LEEWAY_S": "0",
        }

    def connect(self, user="admin", **options):
        """Our client, as a user."""
        return connect(self.uri, self._config(user, options))

    def connect_blocking(self, user="admin"):
        return blocking.connect(self.uri, self._config(user, {}))

    def _config(self, user, options):
        credentials = Credentials.basic(user, USERS[user][0])
        return ClientConfig(credentials=credentials, tls_authorities=self.certificates.ca, **options)

    def add_user(self, name):
        """Put a user back as it is in ``USERS``."""
        password, *grants = USERS[name]
        options = [option for grant in grants for option in ("--grant", grant)]
        self._user("add", name, *options, "--password-stdin", stdin=password)

    def remove_user(self, name):
        self._user("remove", name)

    def _user(self, verb, name, *options, stdin=""):
        command = [*HEADRACE, "user", verb, name, "--file", str(self.users_path), *options]
        programs.run(command, input=stdin, text=True, check=True, timeout=60)


class SecureServer(_Secure, LocalServer):
    """A standalone server."""

    def __init__(self, directory):
        super().__init__(directory, users=USERS, environment=self._settings(directory))


class SecureCluster(_Secure, ClusterServer):
    """A cluster whose processes speak TLS with each other, too."""

    def __init__(self, directory):
        settings = self._settings(directory)
        authority = str(self.certificates.ca)
        settings |= {"HEADRACE_STORE_AUTHORITY": authority, "HEADRACE_CONTROLLER_AUTHORITY": authority}
        super().__init__(directory, users=USERS, environment=settings)
