"""The PySpark pipeline of the demo: read the stream, join the weather, write the delays exactly once."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headrace.demo.flights import LATE_MINUTES
from headrace.demo.ingest import DELAYS, FLIGHTS, SCOPE

if TYPE_CHECKING:  # optional extras, imported once the demo runs
    import pandas as pd
    from pyspark.sql import Column, DataFrame, SparkSession

EVENT_SCHEMA: Final = (
    "number long, time_hour string, hour int, carrier string, flight int, origin string, dest string, "
    "distance int, delay int"
)
KEYS: Final = ("origin", "carrier", "hour")
SUMS: Final = ("flights", "cancelled", "late", "delay", "rain", "rain_late", "wind", "fog")
RESULT_SCHEMA: Final = "origin string, carrier string, hour int, " + ", ".join(
    f"{name} long" for name in SUMS
)

_BYTES_PER_BATCH: Final = 12 << 20
_MINUTES_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class PipelineRun:
    """What the streaming query did."""

    batches: int
    rows: int
    batch_ms_median: int
    segments_seen: int


def start_spark(directory: Path) -> SparkSession:
    """Start a session in this process that logs to ``spark.log``."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    warnings.filterwarnings("ignore", category=FutureWarning)  # pyspark about new versions of pandas
    from pyspark.sql import SparkSession

    from headrace.spark import register

    cores = max(2, min(4, os.cpu_count() or 2))
    with _errors_to(directory / "spark.log"):
        spark = (
            SparkSession.builder.master(f"local[{cores}]")
            .appName("headrace demo")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.driver.memory", "1g")
            .config("spark.sql.streaming.checkpoint.fileChecksum.enabled", "false")
            .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
            .getOrCreate()
        )
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)
    return spark


@contextmanager
def _errors_to(path: Path) -> Iterator[None]:
    """Let processes started meanwhile write their errors to a file: the JVM begins with warnings."""
    sys.stderr.flush()
    previous = os.dup(2)
    target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(target, 2)
    try:
        yield
    finally:
        os.dup2(previous, 2)
        os.close(previous)
        os.close(target)


def run_pipeline(spark: SparkSession, uri: str, weather: pd.DataFrame, directory: Path) -> PipelineRun:
    """Process everything that is in the stream now, batch by batch, and return when it is done.

    Each micro-batch adds its share of the delays per origin, carrier and hour: as events to a second stream,
    recognised there by query and batch number if it has to be repeated, and as a folder of Parquet files that
    a repetition replaces.
    """
    from pyspark.sql import functions as F  # noqa: N812 - the usual name

    weather_path = directory / "weather.parquet"
    weather.to_parquet(weather_path, index=False)
    conditions = F.broadcast(spark.read.parquet(str(weather_path)))

    flights = (
        spark.readStream.format("headrace")
        .option("controller", uri)
        .option("scope", SCOPE)
        .option("stream", FLIGHTS)
        .option("start_stream_cut", "earliest")
        .option("approx_bytes_per_trigger", _BYTES_PER_BATCH)
        .option("columns", "event")
        .load()
        .select(F.from_json(F.col("event").cast("string"), EVENT_SCHEMA).alias("flight"))
        .select("flight.*")
        .join(conditions, ["origin", "time_hour"], "left")
    )

    def write_share(batch: DataFrame, batch_id: int) -> None:
        share = batch.groupBy(*KEYS).agg(*_sums(F)).persist()
        try:
            share.coalesce(1).write.mode("overwrite").parquet(str(directory / "delays" / f"batch={batch_id}"))
            (
                share.select(
                    F.to_json(F.struct(*share.columns)).alias("event"), F.col("carrier").alias("routing_key")
                )
                .coalesce(1)
                .write.format("headrace")
                .option("controller", uri)
                .option("scope", SCOPE)
                .option("stream", DELAYS)
                .option("txn_app_id", "demo-delays")
                .option("txn_version", batch_id)
                .mode("append")
                .save()
            )
        finally:
            share.unpersist()

    query = (
        flights.writeStream.foreachBatch(write_share)
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    if not query.awaitTermination(60 * _MINUTES_MAX):
        query.stop()
        raise TimeoutError(f"the pipeline did not finish within {_MINUTES_MAX} minutes")
    progress = [each for each in query.recentProgress if each.numInputRows]
    segments = {name for each in progress for name in _segments(each.sources[0].endOffset)}
    times = sorted(each.durationMs["triggerExecution"] for each in progress)
    return PipelineRun(
        batches=len(progress),
        rows=sum(each.numInputRows for each in progress),
        batch_ms_median=times[len(times) // 2] if times else 0,
        segments_seen=len(segments),
    )


def _segments(offset: Any) -> list[str]:
    """Return the segments of a position, as progress reports show it."""
    position = json.loads(offset) if isinstance(offset, str) else offset
    return list(position.get("streams", {}).get(f"{SCOPE}/{FLIGHTS}", ()))


def _sums(F: Any) -> list[Column]:  # noqa: N803 - the usual name
    """Return what is added up: whole numbers only, so that totals can be compared exactly."""
    late = F.coalesce(F.col("delay") >= LATE_MINUTES, F.lit(False))

    def count(condition: Any) -> Any:
        return F.sum(F.when(condition, 1).otherwise(0))

    return [
        F.count("*").alias("flights"),
        count(F.col("delay").isNull()).alias("cancelled"),
        count(late).alias("late"),
        F.coalesce(F.sum("delay"), F.lit(0)).alias("delay"),
        count(F.col("rain")).alias("rain"),
        count(F.col("rain") & late).alias("rain_late"),
        count(F.col("wind")).alias("wind"),
        count(F.col("fog")).alias("fog"),
    ]


def totals_of_parquet(spark: SparkSession, directory: Path) -> pd.DataFrame:
    """Add up what the pipeline wrote as Parquet."""
    return _add_up(spark.read.parquet(str(directory / "delays")))


def totals_of_stream(spark: SparkSession, uri: str) -> pd.DataFrame:
    """Add up what the pipeline wrote to the second stream, with a batch read."""
    from pyspark.sql import functions as F  # noqa: N812

    events = (
        spark.read.format("headrace")
        .option("controller", uri)
        .option("scope", SCOPE)
        .option("stream", DELAYS)
        .option("columns", "event")
        .load()
    )
    parsed = events.select(F.from_json(F.col("event").cast("string"), RESULT_SCHEMA).alias("row"))
    return _add_up(parsed.select("row.*"))


def _add_up(rows: DataFrame) -> pd.DataFrame:
    import pandas as pd
    from pyspark.sql import functions as F  # noqa: N812

    totals = rows.groupBy(*KEYS).agg(*(F.sum(name).alias(name) for name in SUMS)).orderBy(*KEYS)
    return pd.DataFrame([row.asDict() for row in totals.collect()], columns=[*KEYS, *SUMS])
