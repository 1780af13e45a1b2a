"""The bytes of pages and footers of a tree are pinned; the format page shows the same ones."""

from array import array
from pathlib import Path

import pytest

from headrace.btree.check import check
from headrace.btree.compaction import CompactionPolicy
from headrace.btree.footer_format import FOOTER_BYTES, decode_footer, empty_root
from headrace.btree.lookup import read_range
from headrace.btree.update import update
from tests.unit.btree.byte_log import run

GOLDEN = Path(__file__).parent / "btree_page" / "v1"
PAGE = Path(__file__).parents[2] / "docs" / "formats" / "btree-page.md"
NAMES = ("full_leaf", "last_leaf", "root", "footer")


def pieces():
    """One write: five keys of two bytes, with pages of 60 bytes."""
    keys = b"".join(number.to_bytes(2, "big") for number in (1, 2, 3, 256, 65535))
    values = array("q", [10, -1, 2**63 - 1, 0, 7])
    fetch = update(empty_root(2), keys, values, note=b"note", policy=CompactionPolicy(), page_bytes_max=60)
    write = run(fetch, None, 2)
    return dict(zip(NAMES, map(bytes, write.data), strict=True))


def pinned(name):
    return bytes.fromhex((GOLDEN / f"{name}.hex").read_text())


@pytest.mark.parametrize("name", NAMES)
def test_a_write_has_the_bytes_it_always_had(name):
    assert pieces()[name] == pinned(name)


def test_the_pinned_bytes_are_the_tree_they_always_were():
    log = b"".join(map(pinned, NAMES))
    root = decode_footer(log[-FOOTER_BYTES:], len(log))
    assert (root.entries, root.pages, root.height, root.lowest, root.note) == (5, 3, 2, 0, b"note")
    entries = run(read_range(root, b"\0\0", b"\xff\xff", 10), lambda at, length: log[at : at + length], 2)
    assert entries.keys.hex() == "0001000200030100ffff"
    assert list(entries.values) == [10, -1, 2**63 - 1, 0, 7]
    run(check(root), lambda at, length: log[at : at + length], 2)


@pytest.mark.parametrize("name", NAMES)
def test_the_format_page_shows_the_pinned_bytes(name):
    lines = []
    data = pinned(name)
    for at in range(0, len(data), 16):
        row = data[at : at + 16]
        lines.append(f"{at:04x}  {row[:8].hex(' ')}  {row[8:].hex(' ')}".rstrip())
    shown = "\n".join(lines)
    if name == "footer":
        shown = "\n".join(lines[:5])  # zeros behind it
    assert shown in PAGE.read_text()
