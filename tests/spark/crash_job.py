"""A job that copies one stream to another until everything is there. Started again whenever it dies."""

import sys
from pathlib import Path

from pyspark.errors import StreamingQueryException

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
    for _ in range(5):
        query = (
            options(events.writeStream.format("headrace_faulty"), target)
            .option("faults", folder)
            .option("checkpointLocation", str(Path(folder) / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination()
            break
        except StreamingQueryException as error:
            if "a fault" not in str(error):
                raise
    spark.stop()
