"""Which storage checkpoint a container is rebuilt from, and under which container epoch it goes on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import DataCorruptionError, InvalidArgumentError
from headrace.repair.rebuild.choice import agree, candidates, is_outdated, next_epoch
from headrace.storage.checkpoints.listed import ListedCheckpoint
from headrace.storage.checkpoints.manifest import Manifest
from headrace.storage.checkpoints.object_names import EPOCH_STEP, CheckpointId
from headrace.storage.chunks.chunk_names import chunk_name

EPOCHS = st.integers(1, 1 << 40)


def manifest(epoch, number, *, time_ms=0, container=0, containers=1, system="", rebuilt=False):
    checkpoint = CheckpointId(epoch, number)
    return Manifest(container, containers, checkpoint, time_ms, 1, 0, 1, "", [], system, rebuilt)


def listing(*manifests):
    listed = {each.checkpoint: ListedCheckpoint({}, 80) for each in manifests}
    return dict(sorted(listed.items())), {each.checkpoint: each for each in manifests}


@given(st.lists(EPOCHS, max_size=5), st.lists(EPOCHS, max_size=5))
def test_a_rebuilt_system_begins_far_above_every_owner_that_left_anything(chunk_epochs, checkpoint_epochs):
    names = [chunk_name(0, "s/a", epoch, 0, "0123abcd", bytes(12)) for epoch in chunk_epochs]
    epoch = next_epoch([*names, "_system/identity"], [CheckpointId(each, 0) for each in checkpoint_epochs])
    highest = max([0, *chunk_epochs, *checkpoint_epochs])
    assert epoch % EPOCH_STEP == 0
    assert highest < epoch <= highest + EPOCH_STEP


def test_the_newest_whole_one_comes_first_and_then_the_one_before():
    listed, manifests = listing(manifest(1, 5), manifest(1, 6), manifest(2, 7))
    assert candidates(listed, manifests, None, 2) == [manifest(2, 7), manifest(1, 6)]
    del manifests[CheckpointId(2, 7)]  # damaged: it counts for owners, who may have deleted since
    assert candidates(listed, manifests, None, 2) == [manifest(1, 6)]


def test_a_time_excludes_later_ones():
    one, two = manifest(1, 5, time_ms=100), manifest(1, 6, time_ms=200)
    listed, manifests = listing(one, two)
    assert candidates(listed, manifests, 199, 2) == [one]
    assert candidates(listed, manifests, 200, 2) == [two, one]
    assert candidates(listed, manifests, 99, 2) == []


def test_what_a_rebuild_has_left_makes_nothing_older():
    one, two = manifest(1, 5, time_ms=100), manifest(1, 6, time_ms=200)
    left = manifest(EPOCH_STEP, 7, time_ms=200, rebuilt=True)
    again = manifest(2 * EPOCH_STEP, 8, time_ms=200, rebuilt=True)
    listed, manifests = listing(one, two, left, again)
    assert candidates(listed, manifests, None, 2) == [two, one], "the others are copies of these"
    owned = manifest(2 * EPOCH_STEP + 1, 9, time_ms=50)  # the rebuilt system was used: now it counts
    listed, manifests = listing(two, left, again, owned)
    assert candidates(listed, manifests, None, 2) == [owned, again, two]


def test_a_rebuild_of_an_earlier_time_that_was_killed_is_not_taken_for_the_newest():
    one, two = manifest(1, 5, time_ms=100), manifest(1, 6, time_ms=200)
    left = manifest(EPOCH_STEP, 7, time_ms=100, rebuilt=True)
    listed, manifests = listing(one, two, left)
    assert candidates(listed, manifests, None, 2) == [two, one]
    listed, manifests = listing(left)
    assert candidates(listed, manifests, None, 2) == [left], "nothing else is there"


def test_what_killed_rebuilds_have_left_of_manifests_makes_nothing_older():
    one = manifest(1, 5)
    halves = [manifest(n * EPOCH_STEP, 5 + n, rebuilt=True) for n in (1, 2, 3)]
    listed, _ = listing(one, *halves)
    assert candidates(listed, {one.checkpoint: one}, None, 2) == [one]


@given(st.integers(0, 4), st.integers(0, 3))
def test_one_is_outdated_when_so_many_newer_ones_may_have_freed_what_it_names(newer, left):
    chosen = manifest(1, 0)
    others = [manifest(1, 1 + n) for n in range(newer)]
    others += [manifest(9 + n, 50 + n, rebuilt=True) for n in range(left)]
    listed, manifests = listing(chosen, *others)
    assert is_outdated(chosen.checkpoint, listed, manifests, 2) == (newer >= 2)


def test_containers_must_be_of_one_system_and_all_there():
    four = [manifest(1, 0, container=n, containers=4, system="an-id") for n in range(4)]
    assert agree(four) == (4, "an-id")
    with pytest.raises(DataCorruptionError, match="no whole storage checkpoint that is old enough: 2"):
        agree(four[:2] + four[3:])
    with pytest.raises(DataCorruptionError, match="different systems"):
        agree([*four, manifest(1, 0, container=4, containers=5)])
    with pytest.raises(DataCorruptionError, match="different systems"):
        agree([*four[1:], manifest(1, 0, containers=4, system="another")])
    with pytest.raises(InvalidArgumentError, match="nothing can be rebuilt"):
        agree([])
