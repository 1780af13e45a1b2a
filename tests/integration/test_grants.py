"""What users of our client may do with which grants: each of them tries everything.

``docs/operating/security.md`` has this as a table.
"""

import time

import pytest

from headrace.client import ClientConfig, Credentials, ScalingPolicy, StreamConfiguration, connect
from headrace.errors import PermissionDeniedError
from headrace.testing import LocalServer

pytestmark = pytest.mark.cluster

SALES, ORDERS = "prn::/scope:sales", "prn::/scope:sales/stream:orders"
USERS = {
    "admin": ("secret", "prn::*,READ_UPDATE"),
    "owner": ("secret", f"{SALES},READ_UPDATE", f"{SALES}/*,READ_UPDATE"),
    "auditor": ("secret", f"{SALES},READ", f"{SALES}/*,READ"),
    "reader": ("secret", f"{ORDERS},READ"),
    "writer": ("secret", f"{ORDERS},READ_UPDATE"),
    "shopkeeper": ("secret", f"{SALES}/key-value-table:prices,READ_UPDATE"),
    "stranger": ("secret", f"{ORDERS},NONE", "prn::/scope:other*,READ_UPDATE"),
}
CONFIG = StreamConfiguration(scaling=ScalingPolicy.fixed(2))


async def look(client, _):
    await client.stream_configuration("sales", "orders")
    await client.stream_info("sales", "orders")
    await client.cut_at("sales", "orders", round(time.time() * 1000))


async def read(client, _):
    async with client.event_reader("sales", "orders", end="tail") as reader:
        assert len([event async for event in reader]) >= 20


async def read_from_a_cut(client, _):
    head, tail = [await cut("sales", "orders") for cut in (client.head_cut, client.tail_cut)]
    await client.check_cut(tail)
    async with client.event_reader("sales", "orders", start=head, end=tail) as reader:
        assert len([event async for event in reader]) >= 20


async def read_to_the_end(client, _):
    """To that of a sealed stream."""
    async with client.event_reader("sales", "orders-of-old") as reader:
        assert len([event async for event in reader]) == 1


async def look_at_times(client, _):
    assert [mark async for mark in client.watermarks("sales", "orders")] == []


async def write(client, user):
    async with client.event_writer("sales", "orders") as writer:
        await writer.write(b"of %b" % user.encode(), user)


async def write_in_a_transaction(client, user):
    async with client.txn_writer("sales", "orders") as writer, await writer.begin() as transaction:
        transaction.write(b"of %b" % user.encode(), user)


async def change(client, _):
    await client.update_stream("sales", "orders", CONFIG)
    await client.truncate_stream(await client.head_cut("sales", "orders"))


async def make(client, user):
    await client.create_stream("sales", f"of-{user}", CONFIG)


async def list_a_scope(client, _):
    assert "orders" in [name async for name in client.list_streams("sales")]


async def list_scopes(client, _):
    assert "sales" in [name async for name in client.list_scopes()]


async def make_a_scope(client, user):
    await client.create_scope(f"of-{user}")


async def look_at_a_table(client, _):
    assert (await client.key_value_table_configuration("sales", "prices")).primary_key_bytes == 8


async def use_a_table(client, user):
    async with client.key_value_table("sales", "prices") as table:
        version = await table.put(user[:8].encode().ljust(8), b"1")
        await table.put(user[:8].encode().ljust(8), b"2", version)
        assert b"2" in [entry.value async for entry in table.scan()]
        assert await table.count() >= 1


async def list_tables(client, _):
    assert "prices" in [name async for name in client.list_key_value_tables("sales")]


LOOKING = (look, look_at_times)
READING = (read, read_from_a_cut)
WRITING = (write, write_in_a_transaction, change)
OF_A_SCOPE = (list_a_scope, list_tables, read_to_the_end)
TABLES = (look_at_a_table, use_a_table)
ALLOWED = {
    "admin": (*LOOKING, *READING, *WRITING, *OF_A_SCOPE, *TABLES, make, list_scopes, make_a_scope),
    "owner": (*LOOKING, *READING, *WRITING, *OF_A_SCOPE, *TABLES, make),
    "auditor": (*LOOKING, *READING, *OF_A_SCOPE, look_at_a_table),
    "reader": (*LOOKING, *READING),
    "writer": (*LOOKING, *READING, *WRITING),
    "shopkeeper": TABLES,
    "stranger": (),
}
EVERYTHING = ALLOWED["admin"]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with LocalServer(tmp_path_factory.mktemp("grants"), "--containers", "2", users=USERS) as running:
        yield running
        assert running.stop() == 0
        assert " ERROR " not in running.log()
        assert "secret" not in running.log()


def connect_as(server, user):
    return connect(server.uri, ClientConfig(credentials=Credentials.basic(user, USERS[user][0])))


@pytest.fixture
async def streams(server):
    async with connect_as(server, "admin") as client:
        if await client.create_scope("sales"):
            for name, count in (("orders", 20), ("orders-of-old", 1)):
                await client.create_stream("sales", name, CONFIG)
                async with client.event_writer("sales", name) as writer:
                    for number in range(count):
                        await writer.write(b"%d" % number, f"{number}")
            await client.seal_stream("sales", "orders-of-old")
            await client.create_key_value_table("sales", "prices", primary_key_bytes=8, partitions=2)


async def outcome(client, action, user):
    try:
        await action(client, user)
    except PermissionDeniedError:
        return "denied"
    return "done"


@pytest.mark.parametrize("user", USERS)
async def test_a_user_does_what_is_granted_and_nothing_else(server, streams, user):
    async with connect_as(server, user) as client:
        found = {action.__name__: await outcome(client, action, user) for action in EVERYTHING}
    assert found == {
        action.__name__: "done" if action in ALLOWED[user] else "denied" for action in EVERYTHING
    }
