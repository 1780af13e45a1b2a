"""Streams as PySpark tables: batch and streaming reads in Arrow, and a sink that is exactly once.

``headrace.spark.register(spark)`` makes the format ``headrace`` known to a session. An installed package
registers itself through ``pyspark_headrace``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # PySpark is an optional extra: the caller has it
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Make ``spark.read.format("headrace")`` and its siblings known to this session. May be called twice.

    Raises:
        UnsupportedError: a library of the extra ``spark`` is missing.
    """
    from headrace.spark.source import HeadraceDataSource

    HeadraceDataSource.check_requirements()
    spark.dataSource.register(HeadraceDataSource)
