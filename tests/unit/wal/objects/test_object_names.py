"""What a listing of the objects of a log tells."""

import pytest

from headrace.wal.objects.object_names import (
    NO_HEAD,
    Head,
    Position,
    claim_name,
    containers_in,
    head_name,
    parse_listing,
    record_name,
)


def test_a_listing_gives_claims_heads_and_records_with_their_lengths():
    head = Head(Position(2, 7), 31)
    names = {
        claim_name(5, 1): 72,
        claim_name(5, 12): 72,
        record_name(5, Position(2, 7)): 100,
        record_name(5, Position(2, 8)): 72,
        head_name(5, head): 72,
        head_name(5, Head(Position(1, 30), 30)): 72,
    }
    listing = parse_listing(names, 5)
    assert listing.claims == {1, 12}
    assert listing.records == {2: {7: 100, 8: 72}}
    assert listing.head == head
    assert listing.newest_epoch == 12
    assert listing.epochs() == [2, 12]


def test_an_empty_listing_is_an_empty_log():
    listing = parse_listing({}, 0)
    assert (listing.head, listing.newest_epoch, listing.epochs()) == (NO_HEAD, 0, [])


@pytest.mark.parametrize(
    "name",
    [
        *("5/e01", "5/e", "5/e-1", "5/e1 ", "5/e1/x", "05/e1", "5/x1", "e1", "5/r1", "5/r1-", "5/r1-2-3"),
        *("5/h1-2", "5/h1-2-3-4", "5/r1-00", "5/e9999999999999999999", "5/e\u0661", "6/e1", "x/5/e1"),
        "5/e9223372036854775808",
    ],
)
def test_other_names_are_passed_over(name):
    listing = parse_listing({name: 72}, 5)
    assert (listing.claims, listing.heads, listing.records) == (set(), set(), {})


def test_containers_are_found_by_the_names_of_their_objects():
    assert sorted(set(containers_in(["10/e1", "2/r1-0", "2/h1-0-1", "3/notes", "x"]))) == [2, 10]


def test_a_later_record_proves_that_an_epoch_was_fenced_and_a_fence_does_not():
    names = {claim_name(0, epoch): 72 for epoch in (1, 2, 3)} | {"0/r1-0": 100, "0/r2-0": 72}
    assert not parse_listing(names, 0).has_records_after(1)
    assert parse_listing(names | {"0/r3-0": 100}, 0).has_records_after(1)
    assert parse_listing(names | {"0/h3-0-5": 72}, 0).has_records_after(1)
