"""The real Rust client against a server with users: it asks for delegation tokens, and renews them."""

import asyncio
import sys
import time

import pytest

from headrace.testing import LocalServer

HAS_WHEEL = sys.version_info < (3, 12)

if HAS_WHEEL:
    import pravega_client as wheel

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(not HAS_WHEEL, reason="the wheel pravega has no build for Python 3.12 and later"),
]

USERS = {
    "ann": ("crimson-password", "prn::*,READ_UPDATE"),
    "bob": ("azure-password", "prn::/scope:s*,READ"),
}


@pytest.fixture
def server(tmp_path):
    """Tokens live ten seconds, the least that a server allows."""
    lifetime = {"HEADRACE_AUTH__TOKEN_LIFETIME_S": "10", "HEADRACE_AUTH__TOKEN_LEEWAY_S": "0"}
    with LocalServer(
        tmp_path, "--in-memory", "--containers", "1", users=USERS, environment=lifetime
    ) as running:
        yield running


@pytest.fixture
def manager_of(server, monkeypatch):
    def make(user):
        monkeypatch.setenv("pravega_client_auth_method", "Basic")
        monkeypatch.setenv("pravega_client_auth_username", user)
        monkeypatch.setenv("pravega_client_auth_password", USERS[user][0])
        return wheel.StreamManager(server.uri, True, False)

    return make


async def read_events(reader, count):
    seen = []
    while len(seen) < count:
        part = await asyncio.wait_for(reader.get_segment_slice_async(), 30)
        seen += [bytes(event.data()).decode() for event in part]
        reader.release_segment(part)
    return seen


@pytest.mark.slow
async def test_a_writer_whose_token_expires_goes_on_and_loses_nothing(server, manager_of):
    manager = manager_of("ann")
    assert manager.create_scope("s")
    assert manager.create_stream("s", "orders", 1)
    writer = manager.create_writer("s", "orders")
    written = []
    ends = time.monotonic() + 60
    while "has expired" not in server.log() and time.monotonic() < ends:
        written.append(f"event {len(written)}")
        writer.write_event(written[-1])
        await asyncio.sleep(0.02)
    for _ in range(20):
        written.append(f"event {len(written)}")
        writer.write_event(written[-1])
    await asyncio.to_thread(writer.flush)
    assert "has expired" in server.log()
    reader = manager.create_reader_group("my_group", "s", "orders").create_reader("r")
    assert await read_events(reader, len(written)) == written
    reader.reader_offline()


def test_a_user_who_may_only_read_does_not_write(manager_of):
    ann = manager_of("ann")
    ann.create_scope("s")
    ann.create_stream("s", "orders", 1)
    bob = manager_of("bob")
    with pytest.raises(Exception, match=r"(?i)denied|permission|auth"):
        bob.seal_stream("s", "orders")
