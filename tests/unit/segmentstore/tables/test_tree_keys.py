import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.segmentstore.tables.tree_keys import TreeKeys


def test_keys_of_fixed_length_are_their_own_tree_keys():
    keys = TreeKeys(3, 7)
    assert keys.of(b"abc") == b"abc"
    assert keys.find(b"abcd") is None
    assert (keys.first, keys.last, keys.key_bytes) == (b"\0\0\0", b"\xff\xff\xff", 3)


def test_other_keys_are_hashed_by_the_seed_of_their_table():
    """These hashes are in data directories."""
    assert TreeKeys(0, 0).of(b"key").hex() == "82af27c64245bfd15a520134b44e6bb1"
    assert TreeKeys(0, 1).of(b"key").hex() == "9afd8236b9c29afee6928b1303e77b3e"
    assert TreeKeys(0, 2).of(b"key") != TreeKeys(0, 1).of(b"key")
    assert len(TreeKeys(0, (1 << 62) - 1).of(b"")) == 16


@given(st.binary(max_size=4), st.lists(st.binary(min_size=2, max_size=2), max_size=20))
def test_bounds_of_any_length_enclose_the_keys_that_they_are_about(bound, some):
    keys = TreeKeys(2, 0)
    lowest, highest = keys.lowest(bound), keys.highest(bound)
    for key in [*some, bytes(2), b"\xff\xff", *[each for each in (lowest, highest) if each is not None]]:
        assert (key >= bound) == (lowest is not None and key >= lowest)
        if bound:
            assert (key <= bound) == (highest is not None and key <= highest)


@pytest.mark.parametrize(("key", "behind"), [(b"\0\0", b"\0\1"), (b"a\xff", b"b\0"), (b"\xff\xff", None)])
def test_the_key_behind_another_one_is_the_next(key, behind):
    assert TreeKeys(2, 0).behind(key) == behind
