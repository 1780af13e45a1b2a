import pytest

from headrace.client import Insert, Put, Remove, TableVersion
from headrace.client.tables.changes import check_changes
from headrace.client.tables.key_layout import KeyLayout
from headrace.client.tables.versions import NO_SEGMENT
from headrace.errors import InvalidArgumentError
from headrace.limits import TABLE_UPDATE_BYTES_MAX, TABLE_VALUE_BYTES_MAX
from headrace.model.tables import NO_VERSION, NOT_EXISTS, TableEntry, TableKey

LAYOUT = KeyLayout(2, 2)


def check(*changes):
    return check_changes(LAYOUT, changes)


def key(number, primary=b"pp"):
    return primary, b"%02x" % number


def test_puts_carry_their_conditions():
    batch = check(
        Put(key(1), b"a"), Put(key(2), bytearray(b"b"), TableVersion(3, 40)), Insert(key(3), memoryview(b""))
    )
    assert batch.primary_key == b"pp"
    assert batch.keys == []
    assert batch.entries == [
        TableEntry(b"pp01", b"a", NO_VERSION),
        TableEntry(b"pp02", b"b", 40),
        TableEntry(b"pp03", b"", NOT_EXISTS),
    ]
    assert batch.segment_ids == {3}
    assert batch.is_conditional


def test_removals_carry_their_conditions():
    batch = check(Remove(key(1)), Remove(key(2), TableVersion(NO_SEGMENT, 7)))
    assert batch.entries == []
    assert batch.keys == [TableKey(b"pp01", NO_VERSION), TableKey(b"pp02", 7)]
    assert batch.segment_ids == set()
    assert batch.is_conditional
    assert not check(Remove(key(1))).is_conditional
    assert not check(Put(key(1), b"")).is_conditional


def test_nothing_is_no_batch():
    assert check() is None


@pytest.mark.parametrize(
    "changes",
    [
        [Put(key(1), b"a"), Remove(key(2))],
        [Remove(key(1)), Insert(key(2), b"")],
        [Put(key(1), b"a"), Put(key(1, b"qq"), b"a")],
        [Remove(key(1)), Remove(key(1, b"qq"))],
        [Put(key(1), b"a"), Put(key(1), b"b")],
        [Put(key(1), b"a"), Insert(key(1), b"b")],
        [Remove(key(1)), Remove(key(1))],
        [Put(key(1), "\udcff")],
        [Put((b"pp", "01"), b"a"), Put(("pp", b"01"), "b")],
        [Put(("pp", "01"), b"a"), Put(("qq", "01"), b"a")],
        [Put(key(1), None)],
        [Put(key(1), 5)],
        [Put(b"pp01", b"")],
        [Put(key(1), b"", 5)],
        [Put(key(1), b"", (0, 5))],
        [Put(key(1), b"", TableVersion(0, -1))],
        [Remove(key(1), TableVersion(0, NO_VERSION))],
        [Remove(key(1), "0:5")],
        [(key(1), b"value")],
        [None],
        [Put(key(number), b"") for number in range(255)]
        + [Put((b"pp", b"%02X" % n), b"") for n in (250, 251)],
        [Put(key(1), bytes(TABLE_VALUE_BYTES_MAX + 1))],
        [Put(key(number), bytes(TABLE_UPDATE_BYTES_MAX // 17)) for number in range(17)],
    ],
    ids=lambda changes: f"{len(changes)} {str(changes[0])[:40]}",
)
def test_what_cannot_be_one_batch_is_refused(changes):
    with pytest.raises(InvalidArgumentError):
        check(*changes)


def test_the_largest_are_not_refused():
    assert check(Put(key(1), bytes(TABLE_VALUE_BYTES_MAX))).count == 1
    assert check(*(Put(key(number), b"") for number in range(256))).count == 256
    assert check(*(Put(key(number), bytes(TABLE_VALUE_BYTES_MAX)) for number in range(16))).count == 16


@pytest.mark.parametrize(
    "version", [TableVersion(0, 0), TableVersion(7 << 32, 2**63 - 1), TableVersion(NO_SEGMENT, 1)]
)
def test_a_version_is_its_text(version):
    assert TableVersion.from_text(str(version)) == version
    assert str(TableVersion(4, 17)) == "4:17"


@pytest.mark.parametrize(
    "text", ["", "4", "4:", ":4", "4:17:1", "a:1", "1:-1", " 1:1", "1:1\n", "1:9223372036854775808"]
)
def test_a_text_that_is_no_version_is_refused(text):
    with pytest.raises(InvalidArgumentError):
        TableVersion.from_text(text)
