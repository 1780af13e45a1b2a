"""Key-value tables by our client on a real server: every call, its refusals, and a server that is killed."""

import asyncio
from random import Random

import pytest

from headrace.client import (
    Insert,
    KeyValueTableConfiguration,
    Put,
    Remove,
    TableVersion,
    blocking,
    connect,
)
from headrace.errors import (
    InvalidArgumentError,
    InvalidNameError,
    LostReplyError,
    NoSuchKeyValueTableError,
    NoSuchScopeError,
    TableKeyMissingError,
    TableKeyVersionError,
)
from headrace.limits import TABLE_VALUE_BYTES_MAX
from headrace.testing import LocalServer
from tests.effort import seeds

pytestmark = pytest.mark.cluster
REFUSED = (TableKeyMissingError, TableKeyVersionError)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with LocalServer(tmp_path_factory.mktemp("tables"), "--in-memory") as running:
        yield running


@pytest.fixture
async def client(server):
    async with connect(server.uri) as connected:
        await connected.create_scope("test")
        yield connected


@pytest.fixture
def name(request):
    return request.node.name.replace("_", "-")[:200]


async def create(client, name, primary=4, secondary=0, partitions=3):
    assert await client.create_key_value_table(
        "test", name, primary_key_bytes=primary, secondary_key_bytes=secondary, partitions=partitions
    )
    return await client.key_value_table("test", name)


async def test_a_table_is_created_described_listed_and_deleted(client, name):
    numbers = {"primary_key_bytes": 8, "secondary_key_bytes": 2, "partitions": 5}
    assert await client.create_key_value_table("test", name, **numbers, rollover_bytes=1 << 24)
    assert not await client.create_key_value_table("test", name, primary_key_bytes=3)
    expected = KeyValueTableConfiguration(**numbers, rollover_bytes=1 << 24)
    assert await client.key_value_table_configuration("test", name) == expected
    assert name in [each async for each in client.list_key_value_tables("test")]
    async with client.key_value_table("test", name) as table:
        assert table.configuration == expected
        await table.put((b"primary8", b"s2"), b"value")
        assert await client.delete_key_value_table("test", name)
        with pytest.raises(NoSuchKeyValueTableError):
            await table.get((b"primary8", b"s2"))
        with pytest.raises(NoSuchKeyValueTableError):
            await table.put((b"primary8", b"s2"), b"value")
    assert not await client.delete_key_value_table("test", name)
    assert name not in [each async for each in client.list_key_value_tables("test")]
    with pytest.raises(NoSuchKeyValueTableError):
        await client.key_value_table_configuration("test", name)
    with pytest.raises(NoSuchKeyValueTableError):
        await client.key_value_table("test", name)
    reopened = await create(client, name)
    assert await reopened.count() == 0


async def test_what_no_table_can_be_is_refused(client):
    with pytest.raises(NoSuchScopeError):
        await client.create_key_value_table("nowhere", "t", primary_key_bytes=4)
    with pytest.raises(NoSuchScopeError):
        [each async for each in client.list_key_value_tables("nowhere")]
    with pytest.raises(NoSuchKeyValueTableError):
        await client.key_value_table("nowhere", "t")
    with pytest.raises(InvalidNameError):
        await client.create_key_value_table("test", "a_b", primary_key_bytes=4)
    for numbers in (
        {"primary_key_bytes": 0},
        {"primary_key_bytes": 4, "secondary_key_bytes": -1},
        {"primary_key_bytes": 4, "partitions": 0},
        {"primary_key_bytes": 4, "partitions": 1 << 40},
        {"primary_key_bytes": 4, "rollover_bytes": -1},
        {"primary_key_bytes": 8000, "secondary_key_bytes": 193},
        {"primary_key_bytes": 4, "partitions": 1_000_000},  # the server has a lower limit
    ):
        with pytest.raises(InvalidArgumentError):
            await client.create_key_value_table("test", "refused", **numbers)
    assert "refused" not in [each async for each in client.list_key_value_tables("test")]


async def test_one_key_lives_through_its_versions(client, name):
    table = await create(client, name)
    assert await table.get(b"key.") is None
    assert not await table.exists(b"key.")
    first = await table.insert(b"key.", b"one")
    with pytest.raises(TableKeyVersionError):
        await table.insert(b"key.", b"other")
    assert await table.get_entry(b"key.") == (b"key.", b"one", first)
    second = await table.put(b"key.", b"two", first)
    with pytest.raises(REFUSED):
        await table.put(b"key.", b"three", first)
    with pytest.raises(REFUSED):
        await table.remove(b"key.", first)
    assert await table.get_entry(b"key.") == (b"key.", b"two", TableVersion.from_text(str(second)))
    await table.remove(b"key.", second)
    await table.remove(b"key.")
    assert not await table.exists(b"key.")
    with pytest.raises(REFUSED):
        await table.put(b"key.", b"four", second)
    third = await table.insert(b"key.", b"")
    assert third not in (first, second)
    assert await table.get(b"key.") == b""
    assert await table.exists(b"key.")
    largest = bytes(TABLE_VALUE_BYTES_MAX)
    await table.put(b"key.", largest)
    assert await table.get(b"key.") == largest


async def test_changes_of_one_family_happen_together_or_not_at_all(client, name):
    table = await create(client, name, secondary=1)

    def key(letter):
        return b"fam.", letter

    versions = await table.apply([Insert(key(b"a"), b"1"), Insert(key(b"b"), b"2"), Put(key(b"c"), b"3")])
    assert len(set(versions)) == 3
    for changes in (
        [Put(key(b"a"), b"x"), Insert(key(b"b"), b"x")],
        [Put(key(b"a"), b"x"), Put(key(b"b"), b"x", versions[0])],
        [Put(key(b"a"), b"x"), Put(key(b"d"), b"x", versions[0])],
        [Remove(key(b"a")), Remove(key(b"b"), versions[0])],
    ):
        with pytest.raises(REFUSED):
            await table.apply(changes)
    assert [(entry.key[1], entry.value) async for entry in table.scan()] == [
        (b"a", b"1"),
        (b"b", b"2"),
        (b"c", b"3"),
    ]
    assert await table.apply([]) == []
    assert await table.apply([Remove(key(b"a"), versions[0]), Remove(key(b"c")), Remove(key(b"z"))]) == []
    assert [entry.key async for entry in table.scan()] == [key(b"b")]
    assert await table.count() == 1


async def test_ranges_are_sorted_over_partitions(client, name):
    table = await create(client, name, primary=2, secondary=2, partitions=4)
    everything = sorted(
        ((primary.to_bytes(2), secondary.to_bytes(2)), b"%d/%d" % (primary, secondary))
        for primary in range(0, 700, 7)
        for secondary in range(0, 65_536, 4099)
    )
    await table.put_all(everything)
    assert await table.count() == len(everything)

    async def scanned(*arguments, **bounds):
        entries = [(entry.key, entry.value) async for entry in table.scan(*arguments, **bounds)]
        assert [each.key async for each in table.scan_keys(*arguments, **bounds)] == [
            key for key, _ in entries
        ]
        return entries

    def within(low, high):
        return [entry for entry in everything if low <= entry[0] <= high]

    zero, top = bytes(2), b"\xff\xff"
    assert await scanned() == everything
    assert await scanned(prefix=b"\x01") == within((b"\x01\x00", zero), (b"\x01\xff", top))
    assert await scanned(first=b"\x00\x15", last=b"\x01\x00") == within(
        (b"\x00\x15", zero), (b"\x01\x00", top)
    )
    assert await scanned(first=b"\x02") == within((b"\x02\x00", zero), (top, top))
    assert await scanned(last=b"\x00") == within((zero, zero), (b"\x00\xff", top))
    family = b"\x00\x15"
    assert await scanned(family) == within((family, zero), (family, top))
    assert await scanned(family, prefix=b"\x10") == within((family, b"\x10\x00"), (family, b"\x10\xff"))
    assert await scanned(family, first=b"\x20", last=b"\x30\x09") == within(
        (family, b"\x20\x00"), (family, b"\x30\x09")
    )
    assert await scanned(b"\x00\x01") == []
    found = await table.get_all(key for key, _ in everything)
    assert [entry.value for entry in found] == [value for _, value in everything]
    versions = {key: version async for key, version in table.scan_keys()}
    assert [entry.version for entry in found] == [versions[key] for key, _ in everything]


@pytest.mark.parametrize("seed", seeds(4))
async def test_any_calls_do_what_they_do_to_a_dictionary(client, name, seed):
    random = Random(seed)
    table = await create(client, name.partition("[")[0] + str(seed), primary=1, secondary=1, partitions=3)
    model = {}  # key: value, version
    stale = []

    def key():
        return bytes([random.choice(b"abcde")]), bytes([random.choice(b"xyz")])

    for number in range(400):
        kind, where, value = (
            random.choice(["put", "insert", "remove", "apply", "look"]),
            key(),
            b"%d" % number,
        )
        present = model.get(where)
        condition = random.choice([None, present and present[1], random.choice(stale) if stale else None])
        holds = condition is None or (present is not None and present[1] == condition)
        try:
            if kind == "put":
                model[where] = value, await table.put(where, value, condition)
                assert holds
            elif kind == "insert":
                model[where] = value, await table.insert(where, value)
                assert present is None
            elif kind == "remove":
                await table.remove(where, condition)
                assert holds
                model.pop(where, None)
            elif kind == "apply":
                family = [(where[0], each) for each in random.sample([b"x", b"y", b"z"], 2)]
                changes = [Put(family[0], value, condition), Insert(family[1], value)]
                first = model.get(family[0])
                holds = condition is None or (first is not None and first[1] == condition)
                present = model.get(family[1])
                versions = await table.apply(changes)
                assert holds
                assert present is None
                model |= {each: (value, version) for each, version in zip(family, versions, strict=True)}
            else:
                assert await table.exists(where) == (present is not None)
                entry = await table.get_entry(where)
                assert (None if entry is None else entry[1:]) == present
        except REFUSED:
            assert not holds or (kind in {"insert", "apply"} and present is not None)
        stale += [model[where][1]] if where in model else []
    entries = {entry.key: entry[1:] async for entry in table.scan()}
    assert entries == model
    assert list(entries) == sorted(model)
    assert await table.count() == len(model)


async def test_large_entries_are_read_many_at_once(client, name):
    table = await create(client, name, partitions=2)
    values = {b"%04d" % n: bytes([n]) * TABLE_VALUE_BYTES_MAX for n in range(24)}
    await table.put_all(values)
    assert [entry.value for entry in await table.get_all(values)] == list(values.values())
    assert {entry.key: entry.value async for entry in table.scan()} == values


def test_a_table_is_a_mapping(server):
    with blocking.connect(server.uri) as client:
        client.create_scope("test")
        assert client.create_key_value_table("test", "mapping", primary_key_bytes=3, partitions=2)
        assert "mapping" in list(client.list_key_value_tables("test"))
        assert client.key_value_table_configuration("test", "mapping").partitions == 2
        with client.key_value_table("test", "mapping") as table:
            assert not table
            table[b"abc"] = b"1"
            table.update({b"aaa": b"2", b"abd": b"3"})
            table.update([(b"zzz", b"4")])
            assert table[b"abc"] == b"1"
            assert table.get(b"nop") is None
            assert table.get(b"nop", b"other") == b"other"
            assert b"abc" in table
            assert b"nop" not in table
            assert len(table) == 4
            assert list(table) == [b"aaa", b"abc", b"abd", b"zzz"]
            assert dict(table.items()) == {b"aaa": b"2", b"abc": b"1", b"abd": b"3", b"zzz": b"4"}
            assert dict(table) == dict(table.items())
            assert list(table.values()) == [b"2", b"1", b"3", b"4"]
            assert b"4" in table.values()
            assert (b"zzz", b"4") in table.items()
            assert [entry.value for entry in table.scan(prefix=b"ab")] == [b"1", b"3"]
            assert [each.key for each in table.scan_keys(last=b"aa")] == [b"aaa"]
            del table[b"abd"]
            for missing in (
                lambda: table[b"abd"],
                lambda: table.pop(b"abd"),
                lambda: table.__delitem__(b"abd"),
            ):
                with pytest.raises(KeyError):
                    missing()
            assert table.pop(b"zzz") == b"4"
            assert table.pop(b"zzz", None) is None
            assert table.setdefault(b"abc", b"9") == b"1"
            assert table.setdefault(b"new", b"9") == b"9"
            version = table.put(b"abc", b"5")
            with pytest.raises(TableKeyVersionError):
                table.insert(b"abc", b"6")
            assert table.apply([Put(b"abc", b"7", version)]) == [table.get_entry(b"abc").version]
            assert [entry and entry.value for entry in table.get_all([b"abc", b"nop"])] == [b"7", None]
            table.remove(b"abc")
            for garbage in ("ab", b"ab", 3, None, (b"abc", b"d")):
                with pytest.raises(InvalidArgumentError):
                    table[garbage]
            with pytest.raises(InvalidArgumentError):
                table[b"abc"] = 5
            table["abc"] = "t\u00e4xt"
            assert table[b"abc"] == table["abc"] == "t\u00e4xt".encode()
            assert (b"abc", "t\u00e4xt".encode()) in list(table.items())
            assert ("abc", "t\u00e4xt") in table.items()
            assert "t\u00e4xt" in table.values()
            assert "abc" in table
            table.update({"abc": "1"}, xyz="2")
            assert table.setdefault("abc", "9") == b"1"
            assert table.setdefault("new", "9") == b"9"
            assert [entry.value for entry in table.get_all(["abc", b"xyz"])] == [b"1", b"2"]
            table.clear()
            assert len(table) == 0
        assert client.delete_key_value_table("test", "mapping")


@pytest.mark.slow
async def test_acknowledged_puts_are_there_after_kills(tmp_path):
    """Three kills while puts with and without conditions are in flight; every outcome is as it was told."""
    acknowledged, unknown = {}, 0
    with LocalServer(tmp_path) as server:
        async with connect(server.uri) as client:
            await client.create_scope("test")
            table = await create(client, "killed", primary=4, secondary=4, partitions=2)
            stopping = asyncio.Event()
            grown = asyncio.Event()

            async def count_up(worker):
                """Count in two keys of one family: one by its version, the other whatever is there."""
                nonlocal unknown
                family = b"%04d" % worker
                version, number = None, 0
                while not stopping.is_set():
                    number += 1
                    value = b"%d" % number
                    await table.put((family, b"free"), value)
                    acknowledged[family, b"free"] = number
                    try:
                        version = (
                            await table.insert((family, b"cond"), value)
                            if version is None
                            else await table.put((family, b"cond"), value, version)
                        )
                    except LostReplyError:
                        unknown += 1
                        entry = await table.get_entry((family, b"cond"))
                        assert entry.value in (value, b"%d" % (number - 1))
                        number, version = int(entry.value), entry.version
                    acknowledged[family, b"cond"] = number
                    if number % 20 == 0:
                        grown.set()

            workers = [asyncio.ensure_future(count_up(worker)) for worker in range(16)]
            for _ in range(3):
                grown.clear()
                await asyncio.wait(
                    [asyncio.ensure_future(grown.wait()), *workers], return_when="FIRST_COMPLETED"
                )
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start)
            stopping.set()
            await asyncio.gather(*workers)
            found = {entry.key: int(entry.value) async for entry in table.scan()}
    assert found == acknowledged
    assert len(found) == 32
