"""Keep the latest value of every key, change it only if nobody else has, and go through ranges of keys.

python examples/key_value_tables.py [tcp://controller:9090]
"""

import asyncio

from local_server import server_uri

import headrace
from headrace import Insert, Put
from headrace.errors import TableKeyMissingError, TableKeyVersionError

SHOP = b"shop-001"


async def main(uri: str) -> None:
    async with headrace.aio.connect(uri) as client:
        await client.create_scope("examples")
        # The primary key says which partition an entry is in; all entries of a shop are changed together.
        await client.create_key_value_table(
            "examples/stock", primary_key_bytes=8, secondary_key_bytes=5, partitions=2
        )
        async with client.key_value_table("examples/stock") as stock:
            apples, _ = await stock.apply(
                [Insert((SHOP, b"apple"), b"10"), Insert((SHOP, b"pears"), b"20")],
            )

            # A version is a condition: of two customers only one takes the last apples.
            await stock.put((SHOP, b"apple"), b"0", apples)
            try:
                await stock.put((SHOP, b"apple"), b"0", apples)
            except (TableKeyVersionError, TableKeyMissingError) as error:
                print(f"too late: {type(error).__name__}")

            await stock.apply([Put((SHOP, b"pears"), b"19"), Put((SHOP, b"plums"), b"5")])
            await stock.put_all(((b"shop-%03d" % n, b"apple"), b"7") for n in range(2, 6))
            family = {key[1].decode(): int(value) async for key, value, _ in stock.scan(SHOP)}
            print(f"the first shop has {family}")
            print(f"apples of all: {sum([int(e.value) async for e in stock.scan() if e.key[1] == b'apple'])}")


def without_asyncio(uri: str) -> None:
    with headrace.connect(uri) as client:
        with client.key_value_table("examples/stock") as stock:
            del stock[SHOP, b"plums"]
            print(f"{len(stock)} entries, the last one is {list(stock.items())[-1]}")
        client.delete_key_value_table("examples/stock")


if __name__ == "__main__":
    with server_uri() as uri:
        asyncio.run(main(uri))
        without_asyncio(uri)
