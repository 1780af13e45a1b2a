"""The demo's own judgement: it has to notice every kind of wrong total."""

import pandas as pd
import pytest

from headrace.demo.pipeline import KEYS, SUMS
from headrace.demo.totals import differences

EXPECTED = pd.DataFrame(
    [{"origin": origin, "carrier": "AA", "hour": 7, **dict.fromkeys(SUMS, 5)} for origin in ("EWR", "JFK")]
)


def test_equal_totals_have_no_differences_whatever_their_order():
    assert differences(EXPECTED, EXPECTED[::-1]) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", SUMS)
def test_one_wrong_number_is_named(name):
    found = EXPECTED.copy()
    found.loc[1, name] = 6
    assert differences(EXPECTED, found) == [f"JFK/AA/7: {name} is 6, not 5"]


def test_a_missing_and_an_additional_group_are_differences():
    assert len(differences(EXPECTED, EXPECTED[:1])) == len(SUMS)
    more = pd.concat([EXPECTED, EXPECTED[:1].assign(carrier="ZZ")])
    assert len(differences(EXPECTED, more)) == len(SUMS)
    assert all("ZZ" in line for line in differences(EXPECTED, more))


def test_no_output_at_all_is_a_difference():
    assert differences(EXPECTED, pd.DataFrame(columns=[*KEYS, *SUMS]))
