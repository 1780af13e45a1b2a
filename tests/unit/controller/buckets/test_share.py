from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from headrace.controller.buckets.share import plan_share, quotas

MEMBERS = st.lists(st.text("abcdef", min_size=1, max_size=3), unique=True, min_size=1, max_size=6)
COUNTS = st.integers(1, 40)


@st.composite
def clusters(draw):
    """Return live members, owners of buckets (some of them dead or none) and how many buckets there are."""
    live, count = draw(MEMBERS), draw(COUNTS)
    owner = st.one_of(st.none(), st.sampled_from(live))
    owners = {bucket: draw(owner) for bucket in range(count)}
    return live, {bucket: owner for bucket, owner in owners.items() if owner is not None}, count


def settle(live, owners, count, order):
    """Let members act, in any order, until none has anything to do; return how often each bucket moved."""
    moves = Counter()
    for _ in range(count * len(live) + 1):
        acted = False
        for me in order(live):
            share = plan_share(me, live, owners, count)
            assert not (share.claim and share.release)
            for bucket in share.release:
                assert owners.pop(bucket) == me
                moves[bucket] += 1
            for bucket in share.claim:
                assert bucket not in owners
                owners[bucket] = me
            acted = acted or share.claim or share.release
        if not acted:
            return moves
    raise AssertionError("it never settles")


def check_even(live, owners, count):
    assert owners.keys() == set(range(count))
    owned = Counter(dict.fromkeys(live, 0))
    owned.update(owners.values())
    assert owned.keys() == set(live)
    assert max(owned.values()) - min(owned.values()) <= 1
    assert max(owned.values()) == -(-count // len(live))


@given(clusters(), st.randoms(use_true_random=False))
def test_everyone_ends_with_its_share_and_no_bucket_moves_twice(cluster, random):
    live, owners, count = cluster
    before = dict(owners)
    moves = settle(live, owners, count, lambda members: random.sample(members, len(members)))
    check_even(live, owners, count)
    assert all(number == 1 for number in moves.values())
    owned = Counter(before.values())
    least, more = divmod(count, len(live))
    ranked = sorted((owned[member] for member in live), reverse=True)
    needed = sum(max(0, have - least - (rank < more)) for rank, have in enumerate(ranked))
    assert len(moves) == needed


@given(clusters(), st.randoms(use_true_random=False))
def test_after_a_death_nothing_moves_but_what_the_dead_owned(cluster, random):
    live, owners, count = cluster
    settle(live, owners, count, list)
    dead = random.choice(live)
    rest = [member for member in live if member != dead]
    if not rest:
        return
    left = {bucket: owner for bucket, owner in owners.items() if owner != dead}
    moves = settle(rest, left, count, lambda members: random.sample(members, len(members)))
    check_even(rest, left, count)
    assert not moves


@given(clusters())
def test_quotas_are_what_there_is(cluster):
    live, owners, count = cluster
    found = quotas(live, owners, count)
    assert sum(found.values()) == count
    assert max(found.values()) - min(found.values()) <= 1


@given(MEMBERS, COUNTS)
def test_members_that_begin_together_want_different_buckets(live, count):
    first = [plan_share(me, live, {}, count).claim for me in live]
    wanted = [bucket for claim in first for bucket in claim]
    assert len(set(wanted)) >= count - len(live)


def test_claims_of_members_that_are_not_seen_are_no_free_buckets():
    assert plan_share("a", ["a", "b"], {0: "dead", 1: "b"}, 4).claim == (2, 3)
