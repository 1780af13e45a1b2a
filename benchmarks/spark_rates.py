"""Spark on a stream beside Spark on Parquet (P13, P14): batch read, catch-up as a stream, write.

The same rows, the same session, alternating rounds; the fastest round counts, because the first ones pay for
starting workers and compiling code.

    python -m benchmarks.spark_rates [--events N] [--size BYTES] [--rounds N] [--smoke]
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

from benchmarks.floor import now
from benchmarks.server import BenchServer
from headrace.client import ScalingPolicy, StreamConfiguration
from headrace.client.blocking import connect

GOAL_READ = 0.3
GOAL_SINK = 1.3
SCOPE = "bench"


def make_session():
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    from headrace.spark import register

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.memory", "2g")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    register(spark)
    return spark


class Rates:
    """The measurements; each returns seconds and checks what it moved."""

    def __init__(self, spark, uri, folder, events, size):
        self.spark, self.uri, self.folder = spark, uri, Path(folder)
        self.events, self.size = events, size
        self.written = 0

    def options(self, builder, stream):
        named = builder.format("headrace").option("controller", self.uri)
        return named.option("scope", SCOPE).option("stream", stream)

    def rows(self):
        return self.spark.range(0, self.events, 1, 2).selectExpr(
            f"cast(rpad(cast(id as string), {self.size}, 'x') as binary) event",
            "cast(id % 1000 as string) routing_key",
        )

    def prepare(self):
        with connect(self.uri) as client:
            client.create_scope(SCOPE)
            for name in ("in", "plain"):
                client.create_stream(SCOPE, name, StreamConfiguration(scaling=ScalingPolicy.fixed(2)))
        rows = self.rows()
        rows.select("event").write.option("compression", "none").parquet(str(self.folder / "rows.parquet"))
        self.options(rows.write, "in").mode("append").save()
        assert self.options(self.spark.read, "in").load().count() == self.events

    def timed(self, work):
        began = now()
        work()
        return now() - began

    def read_parquet(self):
        frame = self.spark.read.parquet(str(self.folder / "rows.parquet"))
        return self.timed(lambda: frame.write.format("noop").mode("overwrite").save())

    def read_stream(self):
        frame = self.options(self.spark.read, "in").option("columns", "event").load()
        return self.timed(lambda: frame.write.format("noop").mode("overwrite").save())

    def catch_up(self):
        """A streaming query over everything in ten batches."""
        cap = self.events * (self.size + 8) // 10 + 1
        frame = self.options(self.spark.readStream, "in").option("columns", "event")
        frame = frame.option("start_stream_cut", "earliest").option("approx_bytes_per_trigger", cap).load()
        checkpoint = tempfile.mkdtemp(dir=self.folder)

        def run():
            query = (
                frame.writeStream.format("noop")
                .option("checkpointLocation", checkpoint)
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
            assert sum(each.numInputRows for each in query.recentProgress) == self.events

        return self.timed(run)

    def write(self, *, exactly_once):
        text = str(exactly_once).lower()
        writer = self.options(self.rows().write, "plain").option("exactly_once", text).mode("append")
        seconds = self.timed(writer.save)
        self.written += self.events
        return seconds

    def check_written(self):
        found = self.options(self.spark.read, "plain").load().count()
        assert found == self.written, f"{found} rows are in the stream, {self.written} were written"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--smoke", action="store_true")
    args = parser.parse_args()
    if args.smoke:
        args.events, args.rounds = 20_000, 2
    server = BenchServer()
    server.start()
    folder = tempfile.mkdtemp(prefix="headrace-spark-bench-")
    try:
        spark = make_session()
        rates = Rates(spark, server.uri, folder, args.events, args.size)
        rates.prepare()
        work = {
            "read Parquet (uncompressed)": rates.read_parquet,
            "read a stream, batch": rates.read_stream,
            "read a stream, ten micro-batches": rates.catch_up,
            "write, plain appends": lambda: rates.write(exactly_once=False),
            "write, exactly once": lambda: rates.write(exactly_once=True),
        }
        best = dict.fromkeys(work, float("inf"))
        for _ in range(args.rounds):
            for name, each in work.items():
                best[name] = min(best[name], each())
        rates.check_written()
        spark.stop()
    finally:
        server.close()
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{args.events:,} events of {args.size} bytes, two segments, two cores, best of {args.rounds}")
    for name, seconds in best.items():
        megabytes = args.events * args.size / seconds / 1e6
        print(
            f"  {name:<34} {seconds:7.2f} s  {args.events / seconds:>12,.0f} events/s  {megabytes:7.0f} MB/s"
        )
    parquet, batch, _, plain, once = best.values()
    print(f"  P13 batch read / Parquet rate: {parquet / batch:.2f} (goal: at least {GOAL_READ})")
    print(f"  P14 exactly once / plain time: {once / plain:.2f} (goal: at most {GOAL_SINK})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
