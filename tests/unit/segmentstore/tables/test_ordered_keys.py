from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from headrace.segmentstore.tables import ordered_keys
from headrace.segmentstore.tables.ordered_keys import OrderedKeys

keys = st.binary(min_size=1, max_size=3)


class AgainstASet(RuleBasedStateMachine):
    """Blocks of three keys, so that splits and vanishing blocks happen all the time."""

    def __init__(self):
        super().__init__()
        self.before = ordered_keys.BLOCK_KEYS_MAX
        ordered_keys.BLOCK_KEYS_MAX = 12
        self.model = set()
        self.ordered = OrderedKeys()

    def teardown(self):
        ordered_keys.BLOCK_KEYS_MAX = self.before

    @rule(key=keys)
    def add(self, key):
        self.ordered.add(key)
        self.model.add(key)

    @rule(some=st.lists(keys, min_size=20, max_size=40))
    def add_many(self, some):
        for key in some:
            self.add(key)

    @rule(key=keys)
    def discard(self, key):
        self.ordered.discard(key)
        self.model.discard(key)

    @rule(start=st.binary(max_size=3), end=st.binary(max_size=3))
    def discard_a_range(self, start, end):
        for key in [key for key in self.model if start <= key <= end]:
            self.discard(key)

    @rule()
    def rebuild(self):
        self.ordered = OrderedKeys(self.model)

    @rule(start=st.binary(max_size=3), count=st.integers(0, 50), inclusive=st.booleans())
    def page(self, start, count, inclusive):
        expected = sorted(key for key in self.model if key > start or (inclusive and key == start))
        assert self.ordered.page(start, count, inclusive=inclusive) == expected[:count]

    @rule(key=keys)
    def contains(self, key):
        assert (key in self.ordered) == (key in self.model)

    @invariant()
    def is_whole(self):
        self.ordered.check()
        assert len(self.ordered) == len(self.model)


TestAgainstASet = AgainstASet.TestCase


@given(st.sets(keys, max_size=50))
def test_keys_are_ordered_as_unsigned_bytes_and_prefixes_come_first(some):
    ordered = OrderedKeys(some)
    assert ordered.page(b"", 100, inclusive=True) == sorted(some)


def test_keys_added_in_order_fill_their_blocks():
    ordered = OrderedKeys()
    for number in range(10_000):
        ordered.add(number.to_bytes(4, "big"))
    ordered.check()
    assert len(ordered._blocks) < 10_000 / (ordered_keys.BLOCK_KEYS_MAX * 0.9)
