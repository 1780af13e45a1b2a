"""One protocol of calls to segments, kept by all that offer them."""

import inspect

import pytest

from headrace.model.segment_access import SegmentAccess
from headrace.segmentstore.store import SegmentStore
from tests.unit.controller.segment_stores import FakeSegmentStores

VERBS = [name for name in vars(SegmentAccess) if not name.startswith("_")]


def parameters_of(verb):
    return [(each.name, each.default) for each in inspect.signature(verb).parameters.values()]


@pytest.mark.parametrize("offered", [SegmentStore, FakeSegmentStores])
@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_takes_the_same_arguments_wherever_it_is_offered(offered, verb):
    assert parameters_of(getattr(offered, verb)) == parameters_of(getattr(SegmentAccess, verb))


def test_verbs_of_tables_say_what_they_do():
    assert "Put entries, all or none" in SegmentStore.table_update.__doc__
