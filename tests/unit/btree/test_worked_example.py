"""Five updates on a tree of seven pages: how many pages each appends, and which pages are free afterwards."""

import pytest

from headrace.btree.compaction import CompactionPolicy
from headrace.btree.page_format import HEADER_BYTES, POINTER
from tests.unit.btree.byte_log import Tree

PLAIN = CompactionPolicy(move_lowest=False, pages_max=0, append_split=False)
COMPACTING = CompactionPolicy(pages_max=0, append_split=False)
THREE_CHILDREN = HEADER_BYTES + 3 * (16 + POINTER.size)  # a leaf holds four entries


def key(number):
    return number.to_bytes(16, "big")


UPDATES = [
    range(100, 104),  # a leaf
    [104],  # the leaf is split below a new root
    [90, 91, 92],  # the left one again
    [80, 81, 82],  # and again: now the root is full, too
    [102],  # a value in a leaf below the other half
]


@pytest.mark.parametrize(
    ("policy", "appended", "first_live"), [(PLAIN, [1, 3, 3, 5, 3], 2), (COMPACTING, [1, 3, 3, 6, 3], 7)]
)
def test_five_updates_append_the_pages_that_they_are_known_to(policy, appended, first_live):
    tree = Tree(16, policy=policy, page_bytes_max=THREE_CHILDREN)
    offsets = []
    counts = []
    for numbers in UPDATES:
        write = tree.update({key(number): number for number in numbers})
        offsets += [ref.offset for ref, _ in write.new_pages]
        counts.append(len(write.new_pages))
        tree.check()
    assert counts == appended
    assert offsets.index(tree.root.lowest) == first_live
    assert tree.root.pages == 7
