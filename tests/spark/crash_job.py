"""A job that copies one stream to another until everything is there. Started again whenever it dies."""

import os
import sys
from pathlib import Path

if __name__ == "__main__":
    uri, source, target, folder = sys.argv[1:]
    from tests.spark.conftest import make_session
    from tests.spark.faulty_sink import FaultySource

    spark = make_session()
    pid = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    (Path(folder) / "jvm").write_text(str(pid))
    spark.dataSource.register(FaultySource)

    def options(builder, stream):
        return builder.option("controller", uri).option("scope", "spark").option("stream", stream)

    events = (
        options(spark.readStream.format("headrace"), source)
        .option("start_stream_cut", "earliest")
        .option("approx_bytes_per_trigger", 1500)
        .load()
        .selectExpr("event", "cast(offset % 7 as string) routing_key")
    )
    query = (
        options(events.writeStream.format("headrace_faulty"), target)
        .option("faults", folder)
        .option("checkpointLocation", os.path.join(folder, "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()
