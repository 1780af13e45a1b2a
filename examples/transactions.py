"""Make several events visible together, or not at all.

python examples/transactions.py [tcp://controller:9090]
"""

import asyncio

from local_server import server_uri

from headrace.aio import Client, connect


async def visible(client: Client) -> list[str]:
    async with client.event_reader("examples/payments", end="tail") as reader:
        return [event.data.decode() async for event in reader]


async def main(uri: str) -> None:
    async with connect(uri) as client:
        await client.create_scope("examples")
        await client.create_stream("examples/payments")

        async with client.txn_writer("examples/payments") as writer:
            # Leaving the block commits.
            async with await writer.begin() as transaction:
                transaction.write(b"alice -5", "alice")
                transaction.write(b"bob +5", "bob")
                await transaction.flush()
                print(f"before the commit: {await visible(client)}")

            # A commit is a decision; the events become visible soon after it. This waits for that.
            transfer = await writer.begin()
            transfer.write(b"carol -3", "carol")
            transfer.write(b"dave +3", "dave")
            await transfer.commit(wait=True)
            print(f"after the commits: {await visible(client)}")

            # An exception aborts.
            try:
                async with await writer.begin() as transaction:
                    transaction.write(b"eve -1000000", "eve")
                    raise RuntimeError("eve has no money")
            except RuntimeError as error:
                print(f"aborted: {error}")
            print(f"after the abort: {await visible(client)}")

        await client.seal_stream("examples/payments")
        await client.delete_stream("examples/payments")


if __name__ == "__main__":
    with server_uri() as uri:
        asyncio.run(main(uri))
