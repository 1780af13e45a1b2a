"""What a type checker has to find behind ``import headrace``. It is checked, never run."""

from collections.abc import Iterator
from typing import assert_type

import headrace
from headrace.client.blocking import BlockingClient


def waiting(client: headrace.Client) -> None:
    assert_type(headrace.connect("tcp://localhost:9090"), headrace.Client)
    assert_type(client.create_scope("demo"), bool)
    assert_type(client.create_stream("demo/orders", segments=3, tags=["a"], retention="7 days"), bool)
    assert_type(client.create_stream("demo", "orders", headrace.StreamConfiguration()), bool)
    assert_type(client.create_stream(scope="demo", stream="orders"), bool)
    assert_type(client.list_streams("demo"), Iterator[str])
    assert_type(client.cut_at("demo/orders", 5), headrace.TimedCut)
    assert_type(client.cut_at("demo", "orders", 5), headrace.TimedCut)
    assert_type(client.event_writer("demo/orders", serializer="json"), headrace.EventWriter)
    assert_type(client.event_reader("demo/orders", end="tail"), headrace.EventReader)
    assert_type(client.txn_writer("demo/orders"), headrace.TxnWriter)
    assert_type(client.key_value_table("demo/stock"), headrace.KeyValueTable)
    assert_type(client.read("demo/orders", follow=True), Iterator[headrace.Event])
    assert_type(client.write("demo/orders", ["one"], key="k"), int)
    assert_type(client.stream("demo/orders"), headrace.Stream)
    assert_type(client.stream("demo/orders").tail(), headrace.StreamCut)
    assert_type(headrace.testing.LocalServer().uri, str)
    older: BlockingClient = client
    assert_type(older, headrace.Client)
    # A mistake is one: an ignore that is not needed is an error of its own.
    client.create_stream("demo/orders", segments="3")  # type: ignore[call-overload]
    client.cut_at("demo/orders")  # type: ignore[call-overload]
    headrace.conect()  # type: ignore[attr-defined]


async def on_loop(client: headrace.aio.Client) -> None:
    assert_type(await client.create_stream("demo/orders"), bool)
    assert_type(await client.write("demo/orders", "one"), int)
    async with client.event_writer("demo/orders") as writer:
        assert_type(writer, headrace.aio.EventWriter)
    async for event in client.read("demo/orders"):
        assert_type(event, headrace.Event)
    assert_type(await client.stream("demo/orders").tail(), headrace.StreamCut)
