from __future__ import annotations

import pytest

from headrace.segmentstore.readindex.redirects import Redirect, Redirects


@pytest.fixture
def redirects():
    redirects = Redirects()
    for offset, end in ((10, 20), (20, 25), (40, 41)):
        redirects.push(Redirect(offset, end, None))
    redirects.check()
    return redirects


def test_each_byte_belongs_to_at_most_one_redirect(redirects):
    found = {offset: redirects.find(offset) for offset in range(50)}
    assert {offset for offset, redirect in found.items() if redirect} == {*range(10, 25), 40}
    assert found[19].offset == 10
    assert found[20].offset == 20


def test_the_next_redirect_limits_a_range(redirects):
    assert redirects.next_offset(0, 100) == 10
    assert redirects.next_offset(10, 100) == 20
    assert redirects.next_offset(25, 30) == 30
    assert redirects.next_offset(40, 100) == 100


@pytest.mark.parametrize(
    ("begin", "end", "touches"),
    [(0, 10, False), (0, 11, True), (24, 25, True), (25, 40, False), (41, 99, False)],
)
def test_a_range_touches_a_redirect_by_one_byte(redirects, begin, end, touches):
    assert redirects.touches(begin, end) == touches


def test_a_redirect_that_is_taken_out_is_gone(redirects):
    first = next(iter(redirects))
    redirects.remove(first)
    assert first not in redirects
    assert len(redirects) == 2
    assert redirects.find(15) is None


@pytest.mark.parametrize(("end", "left"), [(0, 3), (19, 3), (20, 2), (24, 2), (25, 1), (41, 0), (99, 0)])
def test_those_that_end_in_front_of_an_offset_are_taken_out_together(redirects, end, left):
    known = list(redirects)
    taken = redirects.take_below(end)
    assert [*taken, *redirects] == known
    assert len(redirects) == left
    redirects.check()
