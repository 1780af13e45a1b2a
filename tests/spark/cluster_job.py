"""A job for a cluster: a batch read, and a query between streams whose executor is killed on the way."""

import os
import signal
import sys
from pathlib import Path


def kill_once(batches, flag):
    """Kill the executor that this task runs in, the first time that there are rows."""
    for batch in batches:
        if batch.num_rows:
            try:
                Path(flag).unlink()
            except FileNotFoundError:
                pass
            else:
                daemon = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()
                os.kill(int(daemon[1]), signal.SIGKILL)
        yield batch


def main(uri, scope, flag, checkpoint):
    from pyspark.sql import SparkSession

    from headrace.spark import register

    spark = SparkSession.builder.getOrCreate()
    register(spark)

    def options(builder, stream):
        return (
            builder.format("headrace")
            .option("controller", uri)
            .option("scope", scope)
            .option("stream", stream)
        )

    print("rows", options(spark.read, "in").schema("event string").load().count())
    events = options(spark.readStream, "in").option("startingOffsets", "earliest")
    copies = (
        events.option("approx_bytes_per_trigger", 2000)
        .load()
        .selectExpr("event", "cast(offset % 7 as string) routing_key")
        .mapInArrow(lambda batches: kill_once(batches, flag), "event binary, routing_key string")
    )
    query = (
        options(copies.writeStream, "out")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    print("batches", sum(1 for each in query.recentProgress if each.numInputRows))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
