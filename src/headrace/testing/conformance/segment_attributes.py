"""What a segment's attributes do, one test per sentence of ``SegmentAttributes``, wherever their values are.

Subclass :class:`SegmentAttributesContract` and provide ``make``; ``evict`` and ``look_up`` too if there is an
index.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from headrace.errors import AttributeMismatchError, InvalidArgumentError, TooManyAttributesError
from headrace.limits import INT64_MAX, INT64_MIN
from headrace.model import attributes as attr
from headrace.model.attributes import ATTRIBUTE_NULL, AttributeUpdate, UpdateKind
from headrace.segmentstore.state.segment_attributes import (
    TRANSIENT_ATTRIBUTES_MAX,
    SegmentAttributes,
)

KEY, OTHER = b"k" * 16, b"o" * 16
NEVER_SET = b"n" * 16
SEGMENT = "scope/stream/0.#epoch.0"


def update(kind: UpdateKind, value: int, expected: int = ATTRIBUTE_NULL, key: bytes = KEY) -> AttributeUpdate:
    return AttributeUpdate(key, kind, value, expected)


class SegmentAttributesContract:
    """The attributes of one segment of which ``values`` are durable, at the start of each test."""

    def make(self, values: Mapping[bytes, int]) -> SegmentAttributes:
        raise NotImplementedError

    def evict(self, attributes: SegmentAttributes) -> None:
        """Evict every value that may be evicted."""

    def look_up(self, attributes: SegmentAttributes, attribute_id: bytes) -> int:
        """Return what the index has of an attribute."""
        raise NotImplementedError

    def load(self, attributes: SegmentAttributes, attribute_ids: Sequence[bytes]) -> None:
        """Fill in what is missing, as the callers do."""
        missing = attributes.missing(attribute_ids)
        attributes.fill(missing, [self.look_up(attributes, key) for key in missing])

    async def propose(
        self, attributes: SegmentAttributes, updates: Sequence[AttributeUpdate]
    ) -> dict[bytes, int]:
        """Propose as the callers do: what is needed is filled in before."""
        self.load(attributes, [each.attribute_id for each in updates])
        return attributes.propose(SEGMENT, updates)

    async def change(self, attributes: SegmentAttributes, values: Mapping[bytes, int]) -> None:
        attributes.accept(values)
        attributes.apply(values)

    # ---- look-up and loading

    async def test_a_loaded_value_is_the_durable_one_and_null_if_it_is_not_set(self) -> None:
        attributes = self.make({KEY: 7, attr.EVENT_COUNT: 3})
        self.evict(attributes)
        self.load(attributes, (KEY, NEVER_SET))
        assert not attributes.missing((KEY, NEVER_SET, attr.EVENT_COUNT))
        assert attributes.get(KEY) == 7
        assert attributes.get(NEVER_SET) == ATTRIBUTE_NULL

    async def test_a_core_attribute_is_always_known(self) -> None:
        attributes = self.make({attr.EVENT_COUNT: 3, KEY: 1})
        self.evict(attributes)
        assert not attributes.missing((attr.EVENT_COUNT, attr.ROLLOVER_SIZE))
        assert attributes.get(attr.EVENT_COUNT) == 3
        assert attributes.get(attr.ROLLOVER_SIZE) == ATTRIBUTE_NULL

    async def test_whatever_is_not_known_is_missing_and_the_rest_is_not(self) -> None:
        attributes = self.make({KEY: 1, OTHER: 2})
        self.evict(attributes)
        for key in (KEY, OTHER, NEVER_SET):
            assert (attributes.get(key) is None) == (key in attributes.missing((key,)))

    async def test_loading_what_is_known_changes_nothing(self) -> None:
        attributes = self.make({KEY: 1})
        attributes.accept({KEY: 2})
        self.load(attributes, (KEY,))
        assert attributes.get(KEY) == 1
        assert await self.propose(attributes, [update(UpdateKind.ACCUMULATE, 1)]) == {KEY: 3}

    # ---- proposals

    @pytest.mark.parametrize(
        ("kind", "existing", "value", "result"),
        [
            (UpdateKind.SET_IF_ABSENT, None, 5, 5),
            (UpdateKind.SET_IF_ABSENT, 0, 5, None),
            (UpdateKind.REPLACE, None, 5, 5),
            (UpdateKind.REPLACE, 7, 5, 5),
            (UpdateKind.REPLACE_IF_GREATER, None, -5, -5),
            (UpdateKind.REPLACE_IF_GREATER, 5, 6, 6),
            (UpdateKind.REPLACE_IF_GREATER, 5, 5, None),
            (UpdateKind.REPLACE_IF_GREATER, 5, 4, None),
            (UpdateKind.ACCUMULATE, None, 5, 5),
            (UpdateKind.ACCUMULATE, 7, -9, -2),
        ],
    )
    async def test_each_kind_of_update_has_its_condition_and_its_result(
        self, kind: UpdateKind, existing: int | None, value: int, result: int | None
    ) -> None:
        attributes = self.make({} if existing is None else {KEY: existing})
        self.evict(attributes)
        if result is not None:
            assert await self.propose(attributes, [update(kind, value)]) == {KEY: result}
            return
        with pytest.raises(AttributeMismatchError) as refused:
            await self.propose(attributes, [update(kind, value)])
        assert (refused.value.expected, refused.value.actual) == (value, existing)

    @pytest.mark.parametrize(
        ("existing", "expected", "holds"),
        [
            (4, 4, True),
            (4, 5, False),
            (None, ATTRIBUTE_NULL, True),
            (None, 0, False),
            (4, ATTRIBUTE_NULL, False),
        ],
    )
    async def test_replace_if_equals_compares_with_what_it_expects_and_not_with_what_it_sets(
        self, existing: int | None, expected: int, holds: bool
    ) -> None:
        attributes = self.make({} if existing is None else {KEY: existing})
        self.evict(attributes)
        request = update(UpdateKind.REPLACE_IF_EQUALS, 9, expected)
        if holds:
            assert await self.propose(attributes, [request]) == {KEY: 9}
            return
        with pytest.raises(AttributeMismatchError) as refused:
            await self.propose(attributes, [request])
        actual = ATTRIBUTE_NULL if existing is None else existing
        assert (refused.value.attribute_id, refused.value.expected) == (KEY, expected)
        assert refused.value.actual == actual

    async def test_a_condition_looks_at_what_was_accepted_not_only_at_what_is_durable(self) -> None:
        attributes = self.make({KEY: 1})
        attributes.accept({KEY: 2})
        assert attributes.get(KEY) == 1
        request = update(UpdateKind.REPLACE_IF_EQUALS, 3, expected=2)
        assert await self.propose(attributes, [request]) == {KEY: 3}
        assert await self.propose(attributes, [update(UpdateKind.ACCUMULATE, 3)]) == {KEY: 5}

    async def test_each_update_sees_the_result_of_the_one_before_it_and_none_changes_anything(self) -> None:
        attributes = self.make({KEY: 1})
        add = update(UpdateKind.ACCUMULATE, 10)
        assert await self.propose(attributes, [add, add]) == {KEY: 21}
        removed = update(UpdateKind.REPLACE, ATTRIBUTE_NULL)
        absent = update(UpdateKind.SET_IF_ABSENT, 3)
        assert await self.propose(attributes, [removed, absent]) == {KEY: 3}
        with pytest.raises(AttributeMismatchError):
            await self.propose(attributes, [removed, absent, absent])
        assert await self.propose(attributes, [add]) == {KEY: 11}

    @pytest.mark.parametrize(
        ("existing", "kind", "value"),
        [
            (INT64_MAX, UpdateKind.ACCUMULATE, 1),
            (INT64_MIN + 1, UpdateKind.ACCUMULATE, -2),
            (0, UpdateKind.REPLACE, INT64_MAX + 1),
            (0, UpdateKind.REPLACE, INT64_MIN - 1),
        ],
    )
    async def test_a_value_never_leaves_64_bits(self, existing: int, kind: UpdateKind, value: int) -> None:
        with pytest.raises(InvalidArgumentError):
            await self.propose(self.make({KEY: existing}), [update(kind, value)])

    @pytest.mark.parametrize(("existing", "value", "result"), [(1, INT64_MAX - 1, INT64_MAX), (-1, -5, -6)])
    async def test_a_value_may_be_as_large_as_64_bits_hold(
        self, existing: int, value: int, result: int
    ) -> None:
        found = await self.propose(self.make({KEY: existing}), [update(UpdateKind.ACCUMULATE, value)])
        assert found == {KEY: result}

    @pytest.mark.parametrize("key", [attr.SEGMENT_TYPE, attr.ATTRIBUTE_ID_LENGTH])
    async def test_what_is_written_at_creation_is_never_changed(self, key: bytes) -> None:
        with pytest.raises(InvalidArgumentError, match="at creation"):
            await self.propose(self.make({}), [update(UpdateKind.SET_IF_ABSENT, 1, key=key)])

    # ---- bounds

    async def test_a_transient_segment_holds_few_attributes_beside_the_core_ones(self) -> None:
        full = {bytes([number]) * 16: 1 for number in range(TRANSIENT_ATTRIBUTES_MAX)}
        attributes = self.make({attr.SEGMENT_TYPE: attr.TYPE_TRANSIENT} | full)
        again = update(UpdateKind.REPLACE, 2, key=bytes(16))
        core = update(UpdateKind.REPLACE, 2, key=attr.EVENT_COUNT)
        assert await self.propose(attributes, [again, core]) == {bytes(16): 2, attr.EVENT_COUNT: 2}
        attributes.check_capacity(SEGMENT, (bytes(16), attr.EVENT_COUNT))
        with pytest.raises(TooManyAttributesError, match="holds 16 attributes"):
            await self.propose(attributes, [update(UpdateKind.REPLACE, 1, key=OTHER)])
        with pytest.raises(TooManyAttributesError):
            attributes.check_capacity(SEGMENT, (OTHER,))

    # ---- change

    async def test_accepted_values_are_durable_once_applied_in_that_order(self) -> None:
        attributes = self.make({KEY: 1})
        attributes.accept({KEY: 2, OTHER: 1})
        attributes.accept({KEY: 3, OTHER: ATTRIBUTE_NULL})
        assert (attributes.get(KEY), attributes.get(OTHER)) == (1, ATTRIBUTE_NULL)
        attributes.apply({KEY: 2, OTHER: 1})
        assert (attributes.get(KEY), attributes.get(OTHER)) == (2, 1)
        attributes.apply({KEY: 3, OTHER: ATTRIBUTE_NULL})
        assert (attributes.get(KEY), attributes.get(OTHER)) == (3, ATTRIBUTE_NULL)

    async def test_an_attribute_set_to_null_is_not_set(self) -> None:
        attributes = self.make({KEY: 1})
        await self.change(attributes, {KEY: ATTRIBUTE_NULL})
        self.evict(attributes)
        self.load(attributes, (KEY,))
        assert attributes.get(KEY) == ATTRIBUTE_NULL
        assert await self.propose(attributes, [update(UpdateKind.SET_IF_ABSENT, 4)]) == {KEY: 4}

    async def test_what_changed_is_there_after_it_left_memory(self) -> None:
        attributes = self.make({KEY: 1, attr.EVENT_COUNT: 1})
        await self.change(attributes, {KEY: 2, OTHER: 5, attr.EVENT_COUNT: 9})
        self.evict(attributes)
        self.load(attributes, (KEY, OTHER))
        assert [attributes.get(key) for key in (KEY, OTHER, attr.EVENT_COUNT)] == [2, 5, 9]

    # ---- checkpoints

    async def test_a_checkpoint_has_what_is_accepted_of_every_core_attribute(self) -> None:
        attributes = self.make({attr.EVENT_COUNT: 1, attr.CREATION_TIME: 5, KEY: 1})
        self.evict(attributes)
        attributes.accept({attr.EVENT_COUNT: 2})
        values = attributes.checkpoint_values()
        assert (values[attr.EVENT_COUNT], values[attr.CREATION_TIME]) == (2, 5)

    async def test_a_checkpoint_has_what_is_accepted_and_may_be_nowhere_else(self) -> None:
        attributes = self.make({})
        attributes.accept({KEY: 2})
        assert attributes.checkpoint_values()[KEY] == 2

    async def test_the_values_of_a_checkpoint_are_durable_in_who_is_made_of_them(self) -> None:
        attributes = self.make({KEY: 1, attr.EVENT_COUNT: 4})
        attributes.accept({KEY: 2})
        again = self.make(attributes.checkpoint_values())
        self.load(again, (KEY,))
        assert (again.get(KEY), again.get(attr.EVENT_COUNT)) == (2, 4)

    async def test_a_checkpoint_has_removals_the_index_does_not_know_of(self) -> None:
        attributes = self.make({KEY: 1})
        self.evict(attributes)
        self.load(attributes, (KEY,))
        await self.change(attributes, {KEY: ATTRIBUTE_NULL})
        assert attributes.checkpoint_values()[KEY] == ATTRIBUTE_NULL

    # ---- leaving memory

    async def test_what_was_accepted_while_a_value_was_looked_up_wins(self) -> None:
        attributes = self.make({KEY: 1})
        self.evict(attributes)
        attributes.hold((KEY,))
        missing = attributes.missing((KEY,))
        found = [self.look_up(attributes, key) for key in missing]
        await self.change(attributes, {KEY: 2})
        self.evict(attributes)
        attributes.fill(missing, found)
        assert attributes.get(KEY) == 2
        attributes.release((KEY,))

    async def test_what_is_held_stays_in_memory_until_it_is_released_as_often(self) -> None:
        attributes = self.make({KEY: 1})
        attributes.hold((KEY, KEY))
        self.evict(attributes)
        attributes.release((KEY,))
        self.evict(attributes)
        assert attributes.get(KEY) == 1
        attributes.release((KEY,))

    async def test_what_is_in_flight_while_the_index_is_written_stays_newer(self) -> None:
        attributes = self.make({KEY: 1, OTHER: 1})
        written = attributes.unwritten()
        attributes.accept({KEY: 2})
        attributes.note_written(written)
        assert attributes.checkpoint_values() == {KEY: 2}
        assert attributes.unwritten() == {KEY: 1}
        attributes.apply({KEY: 2})
        assert attributes.unwritten() == {KEY: 2}

    async def test_what_is_not_durable_is_not_written(self) -> None:
        attributes = self.make({})
        attributes.accept({KEY: 2})
        assert not attributes.unwritten()
