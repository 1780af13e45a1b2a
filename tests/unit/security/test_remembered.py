"""What is remembered: for how long, how much."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.security.remembered import Remembered

STEPS = st.lists(st.tuples(st.integers(0, 4), st.sampled_from(["find", "add"]), st.integers(0, 5)))


def test_a_success_ends_after_its_time_however_often_it_is_used():
    remembered = Remembered(10, 60)
    remembered.add(b"a", "ada", 100)
    assert [remembered.find(b"a", now) for now in (100, 130, 159.9, 160)] == ["ada", "ada", "ada", None]
    assert len(remembered) == 0


def test_who_was_right_once_is_familiar_until_a_check_fails():
    remembered = Remembered(2, 60)
    assert not remembered.is_familiar(b"a")
    remembered.add(b"a", "ada", 0)
    remembered.clear()
    assert remembered.find(b"a", 1000) is None
    assert remembered.is_familiar(b"a")
    remembered.add(b"a", "ada", 1000)
    remembered.reject(b"a")
    remembered.reject(b"never seen")
    assert (remembered.find(b"a", 1000), remembered.is_familiar(b"a")) == (None, False)
    for digest in (b"a", b"b", b"a", b"c"):
        remembered.add(digest, "ada", 2000)
    assert [remembered.is_familiar(digest) for digest in (b"a", b"b", b"c")] == [True, False, True]


def test_clearing_forgets_all():
    remembered = Remembered(10, 60)
    remembered.add(b"a", "ada", 0)
    remembered.clear()
    assert remembered.find(b"a", 0) is None


@given(STEPS)
def test_it_holds_the_newest_successes_and_no_old_ones(steps):
    remembered, now, added = Remembered(3, 10), 0, {}
    for delay, what, who in steps:
        now += delay
        digest = bytes([who])
        if what == "add":
            remembered.add(digest, f"user{who}", now)
            added.pop(digest, None)
            added[digest] = now
            added = dict(list(added.items())[-3:])
        else:
            known = digest in added and now - added[digest] < 10
            assert remembered.find(digest, now) == (f"user{who}" if known else None)
        assert len(remembered) <= 3
