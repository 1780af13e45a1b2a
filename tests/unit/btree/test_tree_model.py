"""Trees against dictionaries: reopened, truncated and checked after every step."""

import random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headrace.btree.compaction import CompactionPolicy
from headrace.btree.page_format import HEADER_BYTES, PAGE_BYTES_MAX, POINTER
from tests.effort import examples
from tests.unit.btree.byte_log import Tree

POLICIES = [
    CompactionPolicy(move_lowest=False, pages_max=0, append_split=False),
    CompactionPolicy(pages_max=0, append_split=False),
    CompactionPolicy(pages_max=0),
    CompactionPolicy(factor=1.2),
    CompactionPolicy(move_lowest=False, factor=1.5, pages_max=3),
]


def tiny(key_bytes, children):
    return HEADER_BYTES + children * (key_bytes + POINTER.size)


class TreeMachine(RuleBasedStateMachine):
    """Batches of every kind on trees with pages of every size."""

    @initialize(
        key_bytes=st.sampled_from([1, 2, 16, 40]),
        children=st.sampled_from([2, 3, 5, 20, None]),
        policy=st.sampled_from(POLICIES),
    )
    def begin(self, key_bytes, children, policy):
        page_bytes_max = PAGE_BYTES_MAX if children is None else tiny(key_bytes, children)
        self.tree = Tree(key_bytes, policy=policy, page_bytes_max=page_bytes_max)
        self.model = {}

    def key(self, number):
        size = self.tree.root.key_bytes
        return (
            (number % 256**size).to_bytes(size, "big")
            if size <= 2
            else number.to_bytes(4, "big") * (size // 4)
        )

    def apply(self, changes, note=b""):
        previous = [self.model.get(key) for key in sorted(changes)]
        write = self.tree.update(changes, note)
        assert [None if old == -(1 << 63) else old for old in write.previous] == previous
        assert self.tree.root.note == note
        for key, value in changes.items():
            if value is None:
                self.model.pop(key, None)
            else:
                self.model[key] = value
        self.tree.reopen()
        self.tree.truncate()

    @rule(
        changes=st.dictionaries(
            st.integers(0, 300), st.one_of(st.none(), st.integers(-(1 << 63) + 1, (1 << 63) - 1)), max_size=12
        ),
        note=st.binary(max_size=128),
    )
    def change_some(self, changes, note):
        self.apply({self.key(number): value for number, value in changes.items()}, note)

    @rule(
        first=st.integers(0, 300), count=st.integers(30, 200), value=st.one_of(st.none(), st.integers(0, 99))
    )
    def change_many(self, first, count, value):
        self.apply({self.key(number): value for number in range(first, first + count)})

    @rule(seed=st.integers(0, 1 << 16), count=st.integers(1, 150))
    def change_at_random(self, seed, count):
        dice = random.Random(seed)
        numbers = [dice.randrange(1000) for _ in range(count)]
        self.apply({self.key(number): dice.choice([None, number, -number]) for number in numbers})

    @rule()
    def change_nothing(self):
        self.apply({})

    @rule(numbers=st.lists(st.integers(0, 400), max_size=80))
    def look_up(self, numbers):
        keys = [self.key(number) for number in numbers]
        assert self.tree.get(*keys) == [self.model.get(key) for key in keys]

    @rule(low=st.integers(0, 300), high=st.integers(0, 300), count_max=st.integers(1, 100))
    def read_some(self, low, high, count_max):
        first, last = self.key(low), self.key(high)
        wanted = [key for key in sorted(self.model) if first <= key <= last][:count_max]
        assert self.tree.read(first, last, count_max) == {key: self.model[key] for key in wanted}

    @invariant()
    def is_whole(self):
        if hasattr(self, "tree"):
            self.tree.check()
            read = self.tree.read()
            assert read == self.model
            assert list(read) == sorted(read)
            assert self.tree.root.entries == len(self.model)


TestTreeMachine = TreeMachine.TestCase
TestTreeMachine.settings = settings(
    max_examples=examples(60),
    stateful_step_count=15,
    suppress_health_check=[HealthCheck.too_slow],
    deadline=None,
)
TestTreeMachine = pytest.mark.slow(TestTreeMachine)
