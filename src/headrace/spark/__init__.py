"""Streams as PySpark tables: batch and streaming reads in Arrow, and a sink that is exactly once.

``headrace.spark.register(spark)`` makes the format ``headrace`` known to a session. An installed package
registers itself through ``pyspark_headrace``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # PySpark is an optional extra: the caller has it
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession, *, workers: bool = True) -> None:
    """Make ``spark.read.format("headrace")`` and its siblings known to this session. May be called twice, and
    where an installed package has registered itself.

    Args:
        spark: a session, also one of Spark Connect.
        workers: compare the Python of workers with this one, which takes a small job where they can differ:
            not in a local session.

    Raises:
        PreconditionError: workers run another version of Python, or lack a package.
        UnsupportedError: a library of the extra ``spark`` is missing here.
    """
    from headrace.spark.source import HeadraceDataSource

    HeadraceDataSource.check_requirements()
    if workers:
        from headrace.spark.worker_check import check_workers

        check_workers(spark)
    context = getattr(spark, "_sc", None)  # a session of Spark Connect has none
    known = {"parallelism": 0 if context is None else context.defaultParallelism}
    spark.dataSource.register(type(HeadraceDataSource.__name__, (HeadraceDataSource,), known))
