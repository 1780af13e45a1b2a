"""The bytes of all connections: bounded in sum, given in order, in each lane whatever the others do."""

import random

import pytest

from headrace.segmentstore.ingress.budget import ByteBudget, Lane
from headrace.segmentstore.ingress.charges import SHARE_OF_EACH, ChargedKind, Charges
from tests.effort import seeds

FRAMES, REQUESTS, SMALL, REPLIES = Lane
ALONE = 300  # of 800 a lane has 100 for itself, and 200 are anybody's


class Owner:
    def __init__(self, name, budget):
        self.name = name
        self.budget = budget
        self.granted = 0
        self.gave_back = 0
        self.moved = 0
        self.moves = True

    def __repr__(self):
        return self.name

    def begin(self, size, lane=FRAMES):
        return self.budget.begin(lane, self, size, self._on_granted)

    def set_idle(self, lease):
        self.budget.set_idle(lease, self._on_ended)

    def _on_granted(self):
        self.granted += 1

    def _on_ended(self):
        self.gave_back += 1

    def moved_bytes(self, lease):
        self.moved += self.moves
        return self.moved

    def on_overdue(self, lease, age_s):
        raise AssertionError("the test asks by itself")


@pytest.fixture
def budget():
    budget = ByteBudget(800)
    yield budget
    budget.check()


@pytest.fixture
def owners(budget):
    return [Owner(name, budget) for name in "abcdef"]


# ---------------------------------------------------------------------------------------- one lane


def test_room_goes_round_in_the_order_in_which_it_was_asked_for(budget, owners):
    a, b, d, e, *_ = owners
    first = a.begin(180)
    others = [b.begin(180), d.begin(10), e.begin(1000)]
    assert not first.waits
    assert [lease.waits for lease in others] == [True] * 3, "there is room for one, but b was first"
    budget.check()
    budget.end(first)
    assert [owner.granted for owner in (b, d, e)] == [1, 1, 0]
    budget.end(others[0])
    assert e.granted == 0
    budget.end(others[1])
    assert e.granted == 1, "it is alone, and may be as large as it likes"
    assert budget.used(FRAMES) == 1000
    assert (budget.waiting, budget.waits) == (0, 3)
    budget.end(others[2])
    budget.end(others[2])
    assert budget.used(*Lane) == 0


def test_who_gives_up_in_front_of_others_lets_them_in(budget, owners):
    a, b, d, *_ = owners
    a.begin(200)
    gives_up = b.begin(200)
    d.begin(100)
    budget.end(gives_up)
    assert (b.granted, d.granted) == (0, 1)


def test_a_large_one_gets_its_turn_beside_those_that_always_come_again(budget, owners):
    a, b, *_ = owners
    running = a.begin(150)
    b.begin(200)
    for _ in range(100):
        again = a.begin(150)
        budget.end(running)
        assert b.granted == 1
        running = again


def test_room_at_once_is_there_only_where_nobody_waits(budget, owners):
    a, b, d, *_ = owners
    first = budget.begin_nowait(REPLIES, a, 200)
    assert budget.begin_nowait(REPLIES, b, 200) is None
    waiting = b.begin(200, REPLIES)
    assert budget.begin_nowait(REPLIES, d, 10) is None, "somebody was first"
    budget.end(waiting)
    small = budget.begin_nowait(REPLIES, d, 10)
    assert small.size == 10
    budget.end(first)
    budget.end(small)
    assert budget.begin_nowait(REPLIES, a, 5000).size == 5000, "one always fits"


def test_what_is_not_needed_any_more_is_there_for_others(budget, owners):
    a, b, *_ = owners
    first = a.begin(250)
    b.begin(100)
    budget.shrink(first, 260)
    assert b.granted == 0
    budget.shrink(first, 200)
    assert b.granted == 1
    assert budget.used(FRAMES) == 300


# ------------------------------------------------------------------------------------------ growing


def test_who_has_some_and_needs_more_is_served_in_front_of_those_who_have_nothing(budget, owners):
    a, b, d, *_ = owners
    first, second = a.begin(100), b.begin(150)
    d.begin(100)
    assert not budget.grow(first, 280)
    assert budget.grow(second, 150)
    assert budget.waiting == 2
    budget.end(second)
    assert (a.granted, d.granted) == (1, 0)
    assert first.size == 280


def test_when_all_who_have_some_need_more_one_after_the_other_gets_it(budget, owners):
    a, b, d, e, *_ = owners
    leases = [a.begin(90), b.begin(90), d.begin(90)]
    e.begin(50)
    assert not budget.grow(leases[0], 1500)
    assert not budget.grow(leases[1], 1400)
    budget.check()
    assert not budget.grow(leases[2], 1300)
    assert [owner.granted for owner in (a, b, d, e)] == [1, 0, 0, 0], "nobody else could go on either"
    assert budget.used(FRAMES) == 1500 + 180
    budget.end(leases[0])
    assert b.granted == 1
    budget.end(leases[1])
    assert d.granted == 1
    budget.end(leases[2])
    assert e.granted == 1
    budget.check()


def test_who_is_alone_grows_as_it_likes(budget, owners):
    a, b, *_ = owners
    lease = a.begin(100)
    assert budget.grow(lease, 5000)
    b.begin(1)
    assert budget.grow(lease, 6000)
    budget.end(lease)
    assert b.granted == 1


# ---------------------------------------------------------------------------------- kept until wanted


def test_what_rests_stays_until_somebody_wants_it(budget, owners):
    a, b, d, *_ = owners
    first, second = a.begin(200), b.begin(100)
    a.set_idle(first)
    b.set_idle(second)
    assert budget.resume(first, 150)
    assert not budget.resume(second, 150), "it is too small"
    a.set_idle(first)
    assert (a.gave_back, b.gave_back) == (0, 0)
    assert not d.begin(100).waits
    assert (a.gave_back, b.gave_back) == (0, 1), "what b left is enough"
    assert (first.size, second.size) == (200, 0)
    assert not d.begin(200).waits
    assert a.gave_back == 1
    assert budget.used(FRAMES) == 300


def test_what_begins_to_rest_while_others_wait_is_theirs(budget, owners):
    a, b, *_ = owners
    lease = a.begin(250)
    b.begin(200)
    a.set_idle(lease)
    assert (a.gave_back, b.granted) == (1, 1)
    budget.end(lease)
    assert budget.used(FRAMES) == 200


def test_other_lanes_get_what_rests_as_well(budget, owners):
    a, b, *_ = owners
    a.set_idle(a.begin(300))
    assert not b.begin(250, REQUESTS).waits
    assert a.gave_back == 1


# -------------------------------------------------------------------------------------------- lanes


@pytest.mark.parametrize("lane", Lane)
def test_no_lane_keeps_others_out(budget, owners, lane):
    owners[0].begin(5000, lane)
    for other in Lane:
        if other != lane:
            assert not owners[1].begin(60, other).waits
            assert not owners[2].begin(40, other).waits
            assert owners[3].begin(1, other).waits
    budget.charge_unsent(100)
    budget.charge_objects(100)
    assert not budget.unsent_tight
    assert not budget.objects_tight


@pytest.mark.parametrize("kind", ["unsent", "objects"])
def test_charges_keep_nobody_out_and_are_tight_only_beyond_their_own(budget, owners, kind):
    other = "objects" if kind == "unsent" else "unsent"
    charge, charge_other = getattr(budget, f"charge_{kind}"), getattr(budget, f"charge_{other}")

    def tight():
        return getattr(budget, f"{kind}_tight"), getattr(budget, f"{other}_tight")

    charge(300)
    assert tight() == (False, False)
    charge(1)
    assert tight() == (True, False)
    charge(5000)
    charge_other(100)
    assert tight() == (True, False), "they have their own"
    charge_other(1)
    assert tight() == (True, True)
    for lane in Lane:
        assert not owners[0].begin(99, lane).waits
        assert owners[1].begin(2, lane).waits
    assert budget.waiting == 4
    charge(-5100)
    assert budget.waiting == 0
    assert tight() == (False, False)
    charge(-201)
    charge_other(-101)


def test_charges_are_not_tight_while_idle_leases_hold_their_bytes(budget, owners):
    idle = owners[0].begin(ALONE)
    owners[0].set_idle(idle)
    budget.charge_unsent(150)
    assert not budget.unsent_tight
    assert owners[0].gave_back == 1
    assert budget.used(FRAMES) == 0


@pytest.mark.parametrize("lane", Lane)
def test_leases_of_nothing_end_as_others_do(budget, owners, lane):
    budget.end(owners[0].begin(0, lane))
    full = owners[0].begin(5000, lane)
    assert not full.waits, "it is alone"
    waiting = owners[1].begin(0, lane)
    assert waiting.waits
    budget.end(waiting)
    budget.end(full)
    assert owners[1].granted == budget.used(lane) == budget.waiting == 0
    assert not owners[2].begin(5000, lane).waits, "it is alone again"


def test_what_is_anybodys_goes_to_whoever_comes_first(budget, owners):
    first, second = owners[0].begin(50), owners[0].begin(ALONE - 50)
    assert not second.waits
    third = owners[1].begin(100, REPLIES), owners[1].begin(1, REPLIES)
    assert [lease.waits for lease in third] == [False, True]
    budget.end(first)
    assert not third[1].waits


def test_what_waits_for_others_is_set_aside_as_long_as_there_is_room(budget, owners):
    a, b, d, e, *_ = owners
    leases = [a.begin(150, SMALL), b.begin(150, SMALL)]
    d.begin(200, SMALL)
    e.begin(90, SMALL)
    budget.convert_to_charge(leases[0])
    assert (d.granted, budget.unsent_bytes, budget.used(SMALL)) == (0, 150, 150)
    budget.convert_to_charge(leases[1])
    assert (d.granted, budget.unsent_bytes) == (1, 300)
    budget.charge_unsent(100)
    last = a.begin(60, REQUESTS)
    budget.convert_to_charge(last)
    assert budget.used(REQUESTS) == 60, "there is no room for it beside the lanes"
    for lease in (*leases, last):
        budget.end(lease)
    assert budget.unsent_bytes == 100


# ------------------------------------------------------------------------------------------- overdue


def test_only_who_keeps_others_waiting_is_overdue(budget, owners):
    a, b, d, e, *_ = owners
    first, second, third = a.begin(200), b.begin(50), e.begin(90, SMALL)
    first.since, second.since, third.since = 0, 5, 0

    def overdue(now):
        return [(lease.owner, age_s) for lease, age_s in budget.overdue(now, 10)]

    assert overdue(100) == []
    d.begin(200)
    assert overdue(9) == []
    assert overdue(10) == [(a, 10)]
    assert overdue(15) == [(a, 15), (b, 10)], "the other lane is in nobody's way"
    first.since = None
    assert overdue(16) == [(b, 11)], "it is up to us"
    budget.end(second)
    first.since = 0
    budget.end(first)
    assert d.granted == 1
    assert overdue(20) == []


def test_where_nothing_moves_a_client_is_overdue_earlier(budget, owners):
    a, b, *_ = owners
    first = a.begin(200)
    first.since = 0
    b.begin(200)
    assert list(budget.overdue(1, 60)) == []
    a.moves = False
    assert list(budget.overdue(9, 60)) == []
    a.moves = True
    assert list(budget.overdue(50, 60)) == []
    a.moves = False
    assert list(budget.overdue(59, 60)) == []
    first.since = 55  # it is for another frame
    assert list(budget.overdue(64, 60)) == []
    assert [(lease.owner, age_s) for lease, age_s in budget.overdue(65, 60)] == [(a, 10)]


def test_who_waits_only_for_itself_is_not_overdue(budget, owners):
    a, b, *_ = owners
    a.begin(200).since = 0
    a.begin(200)
    assert list(budget.overdue(100, 10)) == []
    b.begin(1)
    assert [lease.owner for lease, _ in budget.overdue(100, 10)] == [a]


def test_who_waits_for_more_is_not_overdue(budget, owners):
    a, b, d, *_ = owners
    first, second = a.begin(100), b.begin(100)
    first.since = second.since = 0
    budget.grow(first, 250)
    d.begin(100)
    assert [lease.owner for lease, _ in budget.overdue(100, 10)] == [b]


# ------------------------------------------------------------------------------------------- charges


def test_things_of_a_kind_are_bounded_for_each_and_beyond_the_budget_by_a_share(budget):
    kind = ChargedKind(budget, each_max=75)  # of 300 bytes that they may take
    one, other = Charges(kind), Charges(kind)
    while not one.full:
        one.add(3)
    assert (one.count, kind.total, kind.bytes, budget.objects_bytes) == (75, 75, 225, 225)
    for _ in range(SHARE_OF_EACH - 1):
        other.add(3)
    assert budget.objects_tight
    assert not other.full
    other.add(3)
    assert other.full
    one.remove(50, 150)
    assert not other.full
    one.close()
    one.remove(1, 3)
    one.close()
    assert one.full
    assert (kind.total, kind.bytes, budget.objects_bytes) == (64, 192, 192)


# ------------------------------------------------------------------------------------------ together


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(40))
def test_whatever_happens_bytes_are_bounded_and_everybody_gets_some(seed):
    draw = random.Random(seed)
    bytes_max = draw.choice((1, 800, 8000))
    budget = ByteBudget(bytes_max)
    largest = 300
    asked, inside, resting, charged = {}, {}, {}, [0, 0]
    charges = budget.charge_unsent, budget.charge_objects

    def settle():
        for lease in [lease for lease in asked if not lease.waits]:
            inside[lease] = asked.pop(lease)
        for lease in [lease for lease in resting if not lease.size]:
            del resting[lease]
        budget.check()
        assert budget.used(*Lane) <= bytes_max + (largest + 60) * len(Lane)
        assert all(lease.size for lease in inside)

    for number in range(1500):
        owner = Owner(str(number), budget)
        kind = draw.randrange(10)
        some = draw.choice(list(inside)) if inside else None
        if kind < 4:
            lane = draw.choice(list(Lane))
            lease = owner.begin(draw.randrange(1, largest), lane)
            asked[lease] = "new"
        elif kind == 4 and some is not None and inside[some] == "new":  # nobody grows twice
            del inside[some]
            asked[some] = "grown"
            budget.grow(some, some.size + draw.randrange(60))
        elif kind == 5 and some is not None:
            del inside[some]
            resting[some] = None
            owner.set_idle(some)
        elif kind == 6 and resting:
            lease = next(iter(resting))
            if budget.resume(lease, draw.randrange(largest)):
                del resting[lease]
                inside[lease] = "grown"
        elif kind == 7 and some is not None:
            budget.convert_to_charge(some)
            inside[some] = "grown"
        elif kind == 8:
            kind = draw.randrange(2)
            change = draw.randrange(-min(charged[kind], 500), 400)
            charged[kind] += change
            charges[kind](change)
        elif some is not None or asked:
            lease = some if some is not None and draw.random() < 0.8 else draw.choice([*asked, *inside])
            inside.pop(lease, None)
            asked.pop(lease, None)
            budget.end(lease)
        settle()
    for kind in range(2):
        charges[kind](-charged[kind])
    settle()
    while inside:
        lease = next(iter(inside))
        del inside[lease]
        budget.end(lease)
        settle()
    assert not asked, "everybody had a turn"
    for lease in resting:
        budget.end(lease)
    assert budget.used(*Lane) == budget.unsent_bytes == budget.objects_bytes == budget.waiting == 0
