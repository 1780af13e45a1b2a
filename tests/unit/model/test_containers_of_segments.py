"""Which container a name belongs to decides where its data are looked for: it never changes."""

import pytest

from headrace.model.hashing import container_of
from headrace.model.names import segment_name, transaction_segment_name, transient_segment_name
from headrace.model.segment_id import make_segment_id


@pytest.mark.parametrize(
    ("name", "of_4", "of_8", "of_16"),
    [
        ("scope/stream/0", 3, 3, 3),
        ("scope/stream/1.#epoch.7", 3, 5, 15),
        ("myscope/mystream/3.#epoch.0", 0, 0, 13),
        ("_system/_requeststream/0.#epoch.0", 1, 4, 4),
        ("größe/strom/1.#epoch.0", 3, 7, 7),
    ],
)
def test_a_name_belongs_to_the_container_it_always_belonged_to(name, of_4, of_8, of_16):
    """The first four stand in ``docs/formats/names.md``."""
    assert [container_of(name, count) for count in (1, 4, 8, 16)] == [0, of_4, of_8, of_16]


@pytest.mark.parametrize("parent", [segment_name("s", "a", make_segment_id(17, 2)), "s/a/17", "s/plain"])
def test_what_is_merged_into_a_segment_is_in_its_container(parent):
    home = container_of(parent, 1000)
    assert container_of(transaction_segment_name(parent, 1 << 100), 1000) == home
    assert container_of(transient_segment_name(parent, bytes(16), bytes(8)), 1000) == home


def test_a_segment_and_its_duplicate_of_another_epoch_are_in_one_container():
    first, second = (segment_name("s", "a", make_segment_id(17, epoch)) for epoch in (2, 5))
    assert container_of(first, 1000) == container_of(second, 1000)
