"""A worker of Spark that ends with an error of ours writes its sentence, and nothing in front of it."""

import io
import subprocess
import sys
import types

import pytest
from pyspark.serializers import read_int
from pyspark.util import handle_worker_exception

from headrace.spark.source import HeadraceDataSource

WRONG = {"scope": "s", "stream": "t", "key_order": "x"}


def written(call):
    """Return what a worker of Spark writes of the error of a call."""
    out = io.BytesIO()
    try:
        call()
    except Exception as error:
        handle_worker_exception(error, out)
    out.seek(0)
    read_int(out)
    return out.read(read_int(out)).decode()


@pytest.fixture
def worker(monkeypatch):
    """This process is a worker of Spark."""
    main = types.ModuleType("__main__")
    main.__spec__ = types.SimpleNamespace(name="pyspark.sql.worker.create_data_source")
    monkeypatch.setitem(sys.modules, "__main__", main)
    monkeypatch.delenv("HEADRACE_DEBUG", raising=False)
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")  # and is restored when the test ends


@pytest.mark.parametrize("door", ["schema", "reader", "writer", "streamWriter"])
def test_the_sentence_is_all_that_a_worker_writes(worker, door):
    options = {**WRONG, "exactly_once": "q"}
    arguments = {"schema": (), "reader": (None,)}.get(door, (None, False))
    text = written(lambda: getattr(HeadraceDataSource(options), door)(*arguments))
    assert text.startswith("headrace.errors.InvalidArgumentError: option ")
    assert len(text.splitlines()) == 1


def test_a_streaming_read_keeps_its_traceback_for_spark_fails_once_more_behind_it(worker):
    text = written(lambda: HeadraceDataSource(WRONG).streamReader(None))
    assert text.startswith("Traceback")
    assert "headrace.errors.InvalidArgumentError: option " in text


def test_for_debugging_the_traceback_is_written(worker, monkeypatch):
    monkeypatch.setenv("HEADRACE_DEBUG", "1")
    assert written(lambda: HeadraceDataSource(WRONG).schema()).startswith("Traceback")


def test_mistakes_of_ours_keep_their_traceback(worker, monkeypatch):
    monkeypatch.setattr("headrace.spark.source.parse_source", lambda *_, **__: 1 / 0)
    assert written(lambda: HeadraceDataSource(WRONG).schema()).startswith("Traceback")


@pytest.mark.slow
def test_no_other_process_is_told_to_hide_tracebacks():
    program = (
        "import os\nfrom headrace.spark.source import HeadraceDataSource\n"
        f"try: HeadraceDataSource({WRONG!r}).schema()\n"
        "except Exception: print(os.environ.get('SPARK_HIDE_TRACEBACK'))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "None\n"
