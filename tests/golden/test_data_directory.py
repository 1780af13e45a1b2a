"""What earlier releases left behind is found, continued and retained by this one."""

import asyncio
import json
import tarfile
import threading
import time
import uuid
from pathlib import Path

import pytest

from headrace.client import connect
from headrace.client.control.transactions import TransactionStatus
from headrace.model.attributes import ATTRIBUTE_NULL, EVENT_COUNT
from headrace.model.tables import NOT_EXISTS, TableEntry, TableKey
from headrace.testing import LocalServer
from headrace.testing.local_server import HEADRACE
from headrace.wire import commands as c
from tests import programs
from tests.effort import sampled
from tests.golden.data_directory.contents import SCOPE, look
from tests.golden.data_directory.wire_calls import WireCalls

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

ARCHIVES = sorted(Path(__file__).parent.glob("data_directory/*/*.tar.xz"))
"""Of each release first one of a server that was killed, whose log has most, then one that was stopped."""
EVENT = b"\0\0\0\0\0\0\0\x05event"
MANY, HASHED = (f"{SCOPE}/{stream}/0.#epoch.0" for stream in ("many", "hash"))
NEW_ATTRIBUTES = 2_100
"""More of one segment than are in memory without being in its attribute index."""

QUICK = {
    "HEADRACE_CONTAINER__STORAGE_WRITER__FLUSH_AGE_S": "0.1",
    "HEADRACE_CONTAINER__EVICTION__EVICTION_INTERVAL_S": "0.1",
    "HEADRACE_CONTAINER__CHECKPOINT_BYTES": "65536",
}


@pytest.fixture(
    params=sampled(ARCHIVES, 2), ids=lambda path: f"{path.parent.name}-{path.name.partition('.')[0]}"
)
def server(request, tmp_path):
    with tarfile.open(request.param) as archive:
        archive.extractall(tmp_path, filter="data")
    server = LocalServer(tmp_path, environment=QUICK)
    yield server
    server.close()


async def test_a_directory_of_an_earlier_release_is_continued(server):
    known = json.loads((server.directory / "found.json").read_text())
    found, writers = known["seen"], known["writers"]
    check(server)
    await asyncio.to_thread(server.start)
    assert differences(found, await look(server, found)) == {}
    # The release that made it knows format 1 only: it must not go on with what it would misread.
    assert json.loads((server.directory / "data" / "headrace.json").read_text())["format"] > 1

    calls = await WireCalls.open(server)
    await change_attributes(calls, found, writers)
    await continue_writers(calls, found, writers)
    await change_tables(calls, found)
    calls.drop()
    await use_streams(server, found, uuid.UUID(known["open_transaction"]).int)
    await asyncio.to_thread(wait_for_attribute_indexes, server)
    changed = await look(server, found)
    assert differences(found, changed, but=("sha256", "last_modified")) == {}

    await asyncio.to_thread(server.restart)
    recovered = await look(
        server, changed
    )  # whose times of changes are when they were logged, not acknowledged
    assert differences(changed, recovered, but=("last_modified",)) == {}
    assert await asyncio.to_thread(server.stop) == 0
    check(server)
    await asyncio.to_thread(server.start)
    assert differences(recovered, await look(server, recovered)) == {}
    assert "Traceback" not in server.log()


def check(server):
    """Compare everything in the directory with everything else, as operators do."""
    command = [*HEADRACE, "check", "container", "--deep", "--data-dir", str(server.directory / "data")]
    done = programs.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def differences(expected, found, but=()):
    """Return what is not as expected, by its path; fields named in ``but`` may be anything."""
    if isinstance(expected, dict) and isinstance(found, dict):
        return {
            f"{key}/{path}": difference
            for key in expected.keys() | found.keys()
            if key not in but
            for path, difference in differences(expected.get(key), found.get(key), but).items()
        }
    return {} if expected == found else {"": (expected, found)}


async def change_attributes(calls, found, writers):
    """Each attribute is changed under its value, and under no other one."""
    for name, segment in found["segments"].items():
        if not segment["exists"] or segment["sealed"]:
            continue
        values = {
            key: value
            for key, value in segment["attributes"].items()
            if key not in writers.get(name, ()) and not key.startswith("80" + "00" * 7)
        }
        wrong = {bytes.fromhex(key): (value + 1, 0) for key, value in values.items()}
        assert not any(await calls.set_attributes(name, wrong))
        if name == MANY:
            values |= {f"{1 << 20 | number:032x}": ATTRIBUTE_NULL for number in range(NEW_ATTRIBUTES)}
        changes = {key: ATTRIBUTE_NULL if n % 5 == 4 else n * n for n, key in enumerate(values)}
        right = {bytes.fromhex(key): (values[key], new) for key, new in changes.items()}
        assert all(await calls.set_attributes(name, right))
        segment["attributes"] |= changes


async def continue_writers(calls, found, writers):
    """Each writer goes on behind the event that it wrote last."""
    for name, last in writers.items():
        segment = found["segments"][name]
        if not segment["exists"] or segment["sealed"]:
            continue
        numbers = {bytes.fromhex(writer): number for writer, number in last.items()}
        before = await calls.append(name, {writer: number + 1 for writer, number in numbers.items()}, EVENT)
        assert before == numbers
        segment["attributes"] |= {writer: number + 1 for writer, number in last.items()}
        segment["attributes"][EVENT_COUNT.hex()] += len(last)
        segment["length"] += len(last) * len(EVENT)


async def change_tables(calls, found):
    """Each table takes a change whose versions are those that were handed out, and no other one."""
    for name, table in found["tables"].items():
        entries = table["entries"]
        some = [TableKey(bytes.fromhex(key), entries[key][0]) for key in sorted(entries)[::2]]
        puts = [TableEntry(each.key, b"changed", each.version) for each in some]
        new = TableEntry(bytes([0xEE] * (table["key_length"] or 3)), b"new", NOT_EXISTS)
        wrong = TableEntry(new.key, b"wrong", 0)
        reply = await calls.ask(c.UpdateTableEntries(0, name, "", [*puts, wrong]))
        assert isinstance(reply, c.TableKeyDoesNotExist | c.TableKeyBadVersion), reply
        for each in some[:5]:
            reply = await calls.ask(c.RemoveTableKeys(0, name, "", [TableKey(each.key, each.version + 1)]))
            assert isinstance(reply, c.TableKeyBadVersion), reply
        reply = await calls.ask(c.UpdateTableEntries(0, name, "", [*puts, new], table["length"]))
        assert isinstance(reply, c.TableEntriesUpdated), reply
        for entry, version in zip([*puts, new], reply.updated_versions, strict=True):
            entries[entry.key.hex()] = [version, entry.value.hex()]
        gone = [TableKey(bytes.fromhex(key), entries[key][0]) for key in sorted(entries)[1::4]]
        if gone:
            reply = await calls.ask(c.RemoveTableKeys(0, name, "", gone))
            assert isinstance(reply, c.TableKeysRemoved), reply
        for each in gone:
            del entries[each.key.hex()]
        table["entry_count"] = len(entries)
        table["lookups"] = {key: entries.get(key, [NOT_EXISTS, ""]) for key in table["lookups"]}
        info = await calls.ask(c.GetTableSegmentInfo(0, name, ""))
        assert info.length > table["length"]
        table["length"] = info.length
        if table["delta"] is not None:
            table["delta"] = dict(sorted(entries.items()))
    assert found["tables"][HASHED]["start_offset"] > 0


async def use_streams(server, found, transaction):
    """Transactions, key-value tables and scaled streams are used by our client."""
    async with connect(server.uri) as client:
        await client.transactions.abort(SCOPE, "tagged", transaction)
        assert await client.transactions.status(SCOPE, "tagged", transaction) is TransactionStatus.ABORTED
        async with client.key_value_table(SCOPE, "table") as table:
            assert await table.count() == found["tables"][f"{SCOPE}/table_kvtable/0.#epoch.0"]["entry_count"]
        async with client.event_writer(SCOPE, "split") as writer:
            await writer.write(b"behind the split", "key")
        async with client.event_reader(SCOPE, "split") as reader:
            assert (await anext(aiter(reader))).data == b"behind the split"


def wait_for_attribute_indexes(server):
    """Wait until the segments with very many attributes have some of them in long-term storage."""
    chunks, deadline = server.directory / "data" / "chunks", time.monotonic() + 60
    pause = threading.Event()
    while not all(list(chunks.glob(f"c*/{SCOPE}/{stream}/*index*")) for stream in ("many", "great")):
        assert time.monotonic() < deadline, "no attribute index was written"
        pause.wait(0.05)  # nothing tells a client when attributes leave memory
