"""Numbers of named writers: which are durable, by place in the key space."""

import random

import pytest

from headrace.client.writer.numbers import NONE, DurableNumbers, NumberedPlace, check_number, wire_id_of
from headrace.errors import InvalidArgumentError
from headrace.limits import INT64_MAX
from headrace.model.key_space import KeyRange
from tests.effort import seeds


@pytest.mark.parametrize("seed", seeds(20))
def test_what_is_durable_at_a_place_is_the_greatest_number_of_what_covers_it(seed):
    rng = random.Random(seed)
    found = []
    durable = DurableNumbers([])
    for _ in range(8):
        low, high = sorted(rng.sample(range(9), 2))
        found.append((KeyRange(low / 8, high / 8), rng.randrange(100)))
        if rng.random() < 0.5:
            durable.raise_to(*found[-1])
        else:
            durable = DurableNumbers(found)
        for position in [n / 32 for n in range(32)]:
            mine = [number for each, number in found if each.receives(position)]
            assert durable.at(position) == max(mine, default=NONE)
        assert durable.least == min(durable.at(n / 32) for n in range(32))


@pytest.mark.parametrize("number", [None, "1", 1.0, True, -1, INT64_MAX + 1, 5])
def test_what_is_no_number_behind_5_is_refused(number):
    with pytest.raises(InvalidArgumentError):
        check_number(number, 5)


def test_a_place_is_a_position_with_a_number_and_a_name_is_another_writer_in_each_segment():
    place = NumberedPlace.of(0.25, 7)
    assert (place, place.number) == (0.25, 7)
    ids = {wire_id_of(name, segment) for name in ("a", "b") for segment in ("s/t/0", "s/t/1")}
    assert len(ids) == 4
    assert wire_id_of("etl-7", "demo/orders/0.#epoch.0").hex() == "98bf141274ca5ab999d729a8f8e402d7"
