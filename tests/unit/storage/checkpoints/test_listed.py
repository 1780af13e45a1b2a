"""Which storage checkpoints stay is decided from what is listed."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.storage.checkpoints.listed import (
    ListedCheckpoint,
    finished,
    next_checkpoint,
    object_names,
    plan_removal,
    sort_objects,
)
from headrace.storage.checkpoints.object_names import CheckpointId, manifest_name, part_name

FACTS = st.builds(
    ListedCheckpoint,
    st.dictionaries(st.integers(0, 3), st.integers(0, 9), max_size=3),
    st.none() | st.integers(80, 99),
)
IDS = st.builds(CheckpointId, st.integers(1, 4), st.integers(0, 20))
LISTED = st.dictionaries(IDS, FACTS.filter(lambda f: f.parts or f.manifest_bytes is not None), max_size=12)


@given(LISTED, LISTED)
def test_objects_are_sorted_into_checkpoints_whatever_their_order(one, two):
    expected, objects = {}, [("s/a.E-1-O-0.0123abcd", 5), ("_system/checkpoints/x", 1)]
    for container, listed in ((0, one), (1, two)):
        for checkpoint, facts in listed.items():
            objects += [(part_name(container, checkpoint, n), size) for n, size in facts.parts.items()]
            if facts.manifest_bytes is not None:
                objects.append((manifest_name(container, checkpoint), facts.manifest_bytes))
        if listed:
            expected[container] = dict(sorted(listed.items()))
    found = sort_objects(reversed(objects))
    assert found == expected
    assert [list(each) for each in found.values()] == [sorted(each) for each in expected.values()]


@given(LISTED, st.integers(2, 4))
def test_the_newest_finished_ones_stay_and_few_others(listed, kept):
    listed = dict(sorted(listed.items()))
    removed = plan_removal(listed, kept)
    left = {found: facts for found, facts in listed.items() if found not in removed}
    whole = finished(listed)
    assert finished(left) == whole[-kept:]
    assert len(left) <= kept + 3
    for found in removed:
        assert (listed[found].manifest_bytes is None) or found < whole[-kept]
    assert plan_removal(left, kept) == []


@given(LISTED, st.integers(1, 9), st.integers(-1, 30))
def test_a_number_is_never_used_again(listed, epoch, last):
    found = next_checkpoint(listed, epoch, last)
    assert found.epoch == epoch
    assert found.number > last
    assert all(found.number > each.number for each in listed)


def test_the_manifest_of_a_checkpoint_goes_first():
    checkpoint = CheckpointId(1, 2)
    names = object_names(0, checkpoint, ListedCheckpoint({1: 5, 0: 5}, 80))
    assert names == [manifest_name(0, checkpoint), part_name(0, checkpoint, 0), part_name(0, checkpoint, 1)]
