"""A library that is missing is said in one sentence, before Spark starts a worker that needs it."""

import pickle
import shutil
import sys
from types import SimpleNamespace

import pytest
from pyspark import cloudpickle

import headrace
from headrace.errors import PreconditionError, UnsupportedError
from headrace.spark import register
from headrace.spark.source import HeadraceDataSource


class Session:
    """What ``register`` uses of a session."""

    def __init__(self, program=sys.executable, master="local[2]", answers=()):
        self.registered = []
        self._sc = self
        self.pythonExec, self.master, self.defaultParallelism = program, master, 3
        self.answers = answers

    @property
    def conf(self):
        return {}

    def __getattr__(self, call):
        assert call in {"range", "mapInArrow", "parallelize", "mapPartitions"}, call
        return lambda *_: self

    def collect(self):
        if isinstance(self.answers, Exception):
            raise self.answers
        return self.answers if self._sc else [SimpleNamespace(asDict=each.copy) for each in self.answers]

    @property
    def dataSource(self):  # noqa: N802 - Spark's name
        return self

    def register(self, source):
        self.registered.append(source)


@pytest.mark.parametrize("name", ["pyarrow", "numpy", "grpc"])
def test_neither_a_session_nor_a_worker_gets_a_source_that_lacks_a_library(name, monkeypatch):
    session = Session()
    register(session)
    monkeypatch.setitem(sys.modules, name, None)
    said = rf"^the format headrace of Spark needs {name}, .*pip install 'headrace\[spark\]'$"
    with pytest.raises(UnsupportedError, match=said):
        register(session)
    with pytest.raises(UnsupportedError, match=said):
        HeadraceDataSource({})
    assert [each.name() for each in session.registered] == ["headrace"]


MINE = f"{sys.version_info[0]}.{sys.version_info[1]}"
WORKER = {
    "host": "h",
    "executable": "/w/python",
    "python": MINE,
    "headrace": headrace.__version__,
    "missing": "",
}


def test_workers_of_the_same_kind_are_taken(monkeypatch):
    session = Session(master="spark://h:1", answers=[WORKER])
    register(session)
    session._sc = None  # a session of Spark Connect
    register(session)
    shipped = [pickle.loads(cloudpickle.dumps(each)) for each in session.registered]
    assert [(each.name(), each.parallelism) for each in shipped] == [("headrace", 3), ("headrace", 0)]


@pytest.mark.parametrize(
    ("answers", "sentence"),
    [
        (
            [{"python": "3.4"}],
            rf"driver runs Python {MINE} \(\S+ on \S+\), a worker Python 3.4 \(/w/python on h\)",
        ),
        ([{}, {"missing": "grpc crc32c"}], "has no grpc and no crc32c; .*PYSPARK_PYTHON.*pure Python only"),
        ([{"headrace": "0.0.1"}], "has 0.0.1"),
        (
            RuntimeError("x\n[PYTHON_VERSION_MISMATCH] worker (3, 4)"),
            "another version of Python .they run .*worker \\(3, 4\\)",
        ),
        (RuntimeError('Cannot run program "/none/python": error=2'), "no such interpreter .*/none/python"),
        (RuntimeError("ModuleNotFoundError: No module named 'pyarrow'"), "lacks a package .*pyarrow"),
    ],
)
def test_workers_that_differ_are_said_with_what_to_set(answers, sentence):
    if isinstance(answers, list):
        answers = [{**WORKER, **each} for each in answers]
    session = Session(master="spark://h:1", answers=answers)
    with pytest.raises(PreconditionError, match=f"{sentence}.*") as caught:
        register(session)
    assert "PYSPARK_PYTHON" in str(caught.value)
    assert session.registered == []


def test_another_failure_of_the_job_stays_what_it_is():
    with pytest.raises(RuntimeError, match="no space"):
        register(Session(master="spark://h:1", answers=RuntimeError("no space")))


def test_a_local_session_is_asked_only_if_its_workers_run_another_python():
    register(Session(answers=RuntimeError("nobody should ask")))
    other = shutil.which("sh")
    with pytest.raises(RuntimeError, match="asked"):
        register(Session(program=other, answers=RuntimeError("asked")))
    with pytest.raises(PreconditionError, match=r"host has no \./environment/bin/python"):
        register(Session(program="./environment/bin/python"))
