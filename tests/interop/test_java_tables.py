"""Key-value tables shared by the real Java client and ours: entries, ranges, versions as conditions.

``java_programs.py`` says what they need.
"""

from itertools import takewhile

import pytest

from headrace.client import TableVersion
from headrace.client.blocking import connect
from headrace.errors import TableKeyMissingError, TableKeyVersionError
from tests.interop.java_programs import needs_java_client, run_program

pytestmark = [pytest.mark.cluster, needs_java_client]
REFUSED = (TableKeyMissingError, TableKeyVersionError)


@pytest.fixture
def client(server, scope):
    with connect(server.uri) as connected:
        connected.create_scope(scope)
        yield connected


@pytest.fixture
def java(server, scope):
    def run(table, case, *arguments):
        return run_program("Tables", server.uri, scope, table, case, *map(str, arguments))

    return run


def entries(lines):
    """What the program has printed, as our client has it."""
    found = []
    for line in lines:
        if line == ["NONE"]:
            found.append(None)
        elif line[:1] == ["ENTRY"]:
            primary, secondary, value = (b"" if each == "-" else bytes.fromhex(each) for each in line[1:4])
            key = (primary, secondary) if secondary else primary
            found.append((key, value, TableVersion.from_text(line[4])))
    return found


def test_what_java_writes_is_read_by_ours_and_iterated_alike(client, scope, java):
    assert java("shared", "create", 4, 4, 2) == [["CREATED", "true"], ["TABLE", "shared"]]
    assert not client.create_key_value_table(scope, "shared", primary_key_bytes=9)
    assert client.key_value_table_configuration(scope, "shared").secondary_key_bytes == 2
    java("shared", "fill", 60, 20)
    with client.key_value_table(scope, "shared") as table:
        everything = list(table.scan())
        assert [(key, value) for key, value, _ in everything] == [
            (((7 * family).to_bytes(4), (3 * member).to_bytes(2)), b"%d/%d" % (family, member))
            for family in range(60)
            for member in range(20)
        ]
        assert len(table) == 1200
        assert table.get_all(entry.key for entry in everything) == everything
        first, last, family = bytes(4), bytes([0, 0, 0, 200]), bytes([0, 0, 0, 70])
        ranges = {
            "all": table.scan(),
            f"range/{first.hex()}/{last.hex()}": table.scan(first=first, last=last),
            "prefix/000001": table.scan(prefix=b"\0\0\1"),
            f"primary/{family.hex()}": table.scan(family),
            f"secondaryRange/{family.hex()}/0006/0019": table.scan(family, first=b"\0\x06", last=b"\0\x19"),
            f"secondaryPrefix/{family.hex()}/00": table.scan(family, prefix=b"\0"),
        }
        lines = iter(java("shared", "iterate", *ranges))
        for words, ours in ranges.items():
            theirs = entries(takewhile(lambda line: line != ["END"], lines))
            assert theirs == list(ours), words
            assert theirs, words


def test_what_ours_writes_is_read_by_java(client, scope, java):
    client.create_key_value_table(scope, "ours", primary_key_bytes=6, partitions=5)
    with client.key_value_table(scope, "ours") as table:
        table.update({b"key%03d" % n: b"value %d" % n for n in range(300)})
        del table[b"key100"]
        assert entries(java("ours", "iterate", "all")) == list(table.scan())
        keys = [b"key%03d" % n for n in range(95, 105)]
        asked = [word for key in keys for word in (key.hex(), "-")]
        assert entries(java("ours", "get", *asked)) == table.get_all(keys)


def test_a_version_is_a_condition_for_either_client(client, scope, java):
    client.create_key_value_table(scope, "both", primary_key_bytes=2, secondary_key_bytes=1, partitions=3)
    with client.key_value_table(scope, "both") as table:
        a, b, c = (b"aa", b"a"), (b"bb", b"b"), (b"cc", b"c")
        ours = {key: table.put(key, b"ours") for key in (a, b)}

        def words(kind, key, version="-"):
            return [kind, key[0].hex(), key[1].hex(), str(version)]

        stale = TableVersion(ours[a].segment_id, ours[a].key_version + 1)
        done = java(
            "both",
            "change",
            *words("insert", a),
            *words("put", a, stale),
            *words("put", a, ours[a]),
            *words("put", a, ours[a]),
            *words("remove", b, ours[b]),
            *words("insert", c),
        )
        assert [line[0] for line in done] == ["REFUSED", "REFUSED", "DONE", "REFUSED", "DONE", "DONE"]
        assert [line[1] for line in done if line[0] == "REFUSED"] == ["true"] * 3
        theirs = {a: TableVersion.from_text(done[2][1]), c: TableVersion.from_text(done[5][1])}
        assert table.get_all([a, b, c]) == [
            (a, b"of Java", theirs[a]),
            None,
            (c, b"of Java", theirs[c]),
        ]
        with pytest.raises(REFUSED):
            table.put(a, b"ours again", ours[a])
        with pytest.raises(REFUSED):
            table.insert(c, b"ours again")
        table.put(a, b"ours again", theirs[a])
        table.remove(c, theirs[c])
        assert dict(table.items()) == {a: b"ours again"}
