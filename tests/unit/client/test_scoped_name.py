import inspect
from enum import StrEnum

import pytest

from headrace.client.scoped_name import both_names, named
from headrace.errors import InvalidNameError


class Name(StrEnum):
    S = "s"
    T = "t"
    BOTH = "s/t"


class Calls:
    @named
    def cut_at(self, scope, stream, time=5, *, wait=False):
        """Say where."""
        return scope, stream, time, wait


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        (("s", "t", 1), {"wait": True}),
        (("s/t", 1), {"wait": True}),
        (("s/t",), {"time": 1, "wait": True}),
        (("s",), {"stream": "t", "time": 1, "wait": True}),
        ((Name.S, Name.T, 1), {"wait": True}),
        ((Name.BOTH, 1), {"wait": True}),
        ((), {"scope": "s", "stream": "t", "time": 1, "wait": True}),
    ],
)
def test_one_text_stands_for_two_names(args, kwargs):
    assert Calls().cut_at(*args, **kwargs) == ("s", "t", 1, True)


@pytest.mark.parametrize("args", [("s",), ("s", 5), ("s/t/u",), ("/t",), ("s/",), (5,), (None, 3), (b"s/t",)])
def test_what_is_no_name_is_refused(args):
    with pytest.raises(InvalidNameError, match="names no stream: it is 'scope/stream'"):
        Calls().cut_at(*args)


def test_more_than_there_may_be_is_a_mistake_as_ever():
    with pytest.raises(TypeError):
        Calls().cut_at("s/t", stream="u")
    with pytest.raises(TypeError):
        Calls().cut_at("s", "t", 1, 2)


def test_help_shows_the_call():
    assert inspect.getdoc(Calls.cut_at) == "Say where."
    assert list(inspect.signature(Calls.cut_at).parameters) == ["self", "scope", "stream", "time", "wait"]


def test_tables_have_both_ways_too():
    assert both_names("s/t", None, "table") == both_names("s", "t", "table") == ("s", "t")
    with pytest.raises(InvalidNameError, match="names no table"):
        both_names("s", None, "table")
