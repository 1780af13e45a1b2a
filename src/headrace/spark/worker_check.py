"""Asks workers, with one small job, for what :mod:`headrace.spark.worker_facts` judges."""

from __future__ import annotations

import logging
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headrace.errors import PreconditionError
from headrace.spark.worker_facts import WorkerFacts, explain_failure, find_difference

if TYPE_CHECKING:  # PySpark is an optional extra: the caller has it
    from pyspark.sql import SparkSession

_log: Final = logging.getLogger(__name__)

_SCHEMA: Final = "host string, executable string, python string, headrace string, missing string"
_TASKS: Final = 4
"""Of the job: a few, so that more than one host may answer."""


def check_workers(spark: SparkSession) -> None:
    """Compare the Python of workers with that of the driver, if they can differ.

    Raises:
        PreconditionError: versions differ, or a worker lacks a package; it names both interpreters.
    """
    (mine,) = _make_probe()(iter(()))
    driver = _facts_of({**mine, "missing": ""})
    context = getattr(spark, "_sc", None)  # a session of Spark Connect has none: it may run anywhere
    program = "PYSPARK_PYTHON of the server"
    if context is not None:
        program = spark.conf.get("spark.sql.execution.pyspark.python", None) or context.pythonExec
        path = shutil.which(program)
        if path is None:
            raise PreconditionError(
                f"the driver's host has no {program}, which PYSPARK_PYTHON names: Spark plans there, with "
                "the path of the workers. Of an archive, unpack a copy in the driver's working directory"
            )
        _warn_of_shipped_files(context)
        if context.master.partition("[")[0] == "local" and _is_same_python(path):
            return
    try:
        answers = _ask_context(context) if context is not None else _ask_session(spark)
    except Exception as error:
        said = explain_failure(driver, program, str(error))
        if said is None:
            raise
        raise PreconditionError(said) from error
    difference = find_difference(driver, {_facts_of(each) for each in answers})
    if difference is not None:
        raise PreconditionError(difference)


def _warn_of_shipped_files(context: Any) -> None:
    """Say what streaming reads need if this package came with ``--py-files``.

    Spark plans them in a process of the driver that does not see shipped files, as batch reads do.
    """
    archive, found, _ = __file__.partition(".zip/")
    name = f"{Path(archive).name}.zip"
    if found and name not in str(context._jvm.System.getenv("PYTHONPATH")):  # noqa: SLF001
        _log.warning(
            "headrace was shipped with --py-files: streaming reads are planned on the driver without shipped "
            "files: set PYTHONPATH=%s there, before spark-submit",
            name,
        )


def _is_same_python(path: str) -> bool:
    """Tell whether a program is this interpreter: the same file in the same environment."""
    mine = Path(sys.executable)
    return Path(path).parent == mine.parent and Path(path).resolve() == mine.resolve()


def _ask_context(context: Any) -> list[dict[str, str]]:
    probe = _make_probe()
    facts: list[dict[str, str]] = context.parallelize(range(_TASKS), _TASKS).mapPartitions(probe).collect()
    return facts


def _ask_session(spark: SparkSession) -> list[dict[str, str]]:
    """Ask over Spark Connect, which has no parallel collections and always has Arrow."""
    probe = _make_probe()

    def in_arrow(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for facts in probe(batches):
            yield pa.RecordBatch.from_pylist([facts])

    rows = spark.range(0, _TASKS, 1, _TASKS).mapInArrow(in_arrow, _SCHEMA).collect()
    return [row.asDict() for row in rows]


def _facts_of(answer: dict[str, str]) -> WorkerFacts:
    names = {name: text for name, text in answer.items() if name != "missing"}
    return WorkerFacts(**names, missing=tuple(answer["missing"].split()))


def _make_probe() -> Callable[[Iterator[Any]], Iterator[dict[str, str]]]:
    """Return what tells about the Python that runs it. A function within a function is shipped by value:
    workers may lack this very module.
    """

    def probe(items: Iterator[Any]) -> Iterator[dict[str, str]]:
        import importlib
        import socket
        import sys

        for _ in items:
            pass
        missing = []
        for name in ("headrace", "numpy", "pyarrow", "grpc", "google.protobuf", "crc32c"):
            try:
                importlib.import_module(name)
            except ImportError:
                missing.append(name)
        yield {
            "host": socket.gethostname(),
            "executable": sys.executable,
            "python": f"{sys.version_info[0]}.{sys.version_info[1]}",
            "headrace": getattr(sys.modules.get("headrace"), "__version__", ""),
            "missing": " ".join(missing),
        }

    return probe
