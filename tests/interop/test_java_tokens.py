"""Delegation tokens of the real Java client, renewed while it writes and reads.

``java_programs.py`` says what it needs.
"""

from base64 import b64encode

import pytest

from tests.interop.java_programs import needs_java_client, run_program
from tests.servers import running

pytestmark = [pytest.mark.cluster, needs_java_client]

GRANTS = {
    "all": ("prn::*,READ_UPDATE",),
    "named": (
        "prn::/,READ_UPDATE",
        "prn::/scope:java,READ_UPDATE",
        "prn::/scope:java/stream:*,READ_UPDATE",
        "prn::/scope:java/reader-group:*,READ_UPDATE",
        "prn::/scope:java/key-value-table:table,READ_UPDATE",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("grants", GRANTS)
def test_everything_that_the_client_does_goes_on_while_tokens_expire(
    server_kind, grants, tmp_path, monkeypatch
):
    """Tokens live ten seconds, the least that a server allows."""
    lifetime = {"HEADRACE_AUTH__TOKEN_LIFETIME_S": "10", "HEADRACE_AUTH__TOKEN_LEEWAY_S": "0"}
    users = {"ann": ("crimson-password", *GRANTS[grants])}
    monkeypatch.setenv("pravega_client_auth_method", "Basic")
    monkeypatch.setenv("pravega_client_auth_token", b64encode(b"ann:crimson-password").decode())
    with running(server_kind, tmp_path, users=users, environment=lifetime) as server:
        done = dict(run_program("Tokens", server.uri, "25"))
        assert "has expired" in server.log()
    assert int(done.pop("EVENTS")) > 100
    assert done == {"LARGE": "9000000", "TXN": "5", "BYTES": "3", "TABLE": "5"}
