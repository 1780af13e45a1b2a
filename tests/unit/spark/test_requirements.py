"""A library that is missing is said in one sentence, before Spark starts a worker that needs it."""

import sys

import pytest

from headrace.errors import UnsupportedError
from headrace.spark import register
from headrace.spark.source import HeadraceDataSource


class Session:
    """What ``register`` uses of a session."""

    def __init__(self):
        self.registered = []

    @property
    def dataSource(self):  # noqa: N802 - Spark's name
        return self

    def register(self, source):
        self.registered.append(source)


@pytest.mark.parametrize("name", ["pyarrow", "numpy"])
def test_neither_a_session_nor_a_worker_gets_a_source_that_lacks_a_library(name, monkeypatch):
    session = Session()
    register(session)
    assert session.registered == [HeadraceDataSource]
    monkeypatch.setitem(sys.modules, name, None)
    said = rf"^the format headrace of Spark needs {name}, .*pip install 'headrace\[spark\]'$"
    with pytest.raises(UnsupportedError, match=said):
        register(session)
    with pytest.raises(UnsupportedError, match=said):
        HeadraceDataSource({})
    assert session.registered == [HeadraceDataSource]
