"""One quiet session and one real server for all tests of Spark.

They end with the last one of these tests: idle ones use some CPU, too.
"""

import itertools
import os
import sys
import tempfile

import pytest

from headrace.client import ScalingPolicy, StreamConfiguration
from headrace.client.blocking import connect
from headrace.testing import LocalServer
from tests.spark.standalone import QUICK_START

os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")

_STARTS = 3
"""PySpark forks before it starts Java. In a process whose earlier tests have left threads of gRPC, the child
may die of what they held."""


def make_session():
    from pyspark.errors import PySparkRuntimeError

    for _ in range(_STARTS - 1):
        try:
            return _make_session()
        except PySparkRuntimeError as error:
            if error.getCondition() != "JAVA_GATEWAY_EXITED":
                raise
    return _make_session()


def _make_session():
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[2,4]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.extraJavaOptions", QUICK_START)
        .config("spark.sql.warehouse.dir", f"{tempfile.gettempdir()}/headrace-spark-warehouse")
        .config("spark.sql.streaming.checkpoint.fileChecksum.enabled", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    return spark


@pytest.fixture(scope="package")
def spark():
    session = make_session()
    yield session
    session.stop()


@pytest.fixture(scope="package")
def server(tmp_path_factory):
    often = {"HEADRACE_CONTROLLER__CUT_SERIES__PERIOD_S": "0.2"}
    with LocalServer(tmp_path_factory.mktemp("server"), environment=often) as process:
        yield process


@pytest.fixture(scope="package")
def client(server):
    with connect(server.uri) as made:
        made.create_scope("spark")
        yield made


_numbers = itertools.count()


class Streams:
    """Streams of one test, and the Spark readers and writers of them."""

    def __init__(self, spark, uri, client, prefix):
        self.spark, self.uri, self.client, self.prefix = spark, uri, client, prefix

    def make(self, name, segments=1):
        configuration = StreamConfiguration(scaling=ScalingPolicy.fixed(segments))
        self.client.create_stream("spark", self.prefix + name, configuration)

    def write(self, name, numbers, keys=5):
        with self.client.event_writer("spark", self.prefix + name) as writer:
            for number in numbers:
                writer.write(f"{number}".encode(), f"key {number % keys}")

    def with_options(self, builder, name, **options):
        for key, value in options.items():
            builder = builder.option(key, value)
        return (
            builder.format("headrace")
            .option("controller", self.uri)
            .option("scope", "spark")
            .option("stream", self.prefix + name)
        )

    def batch(self, name, **options):
        return self.with_options(self.spark.read, name, **options)

    def stream(self, name, **options):
        return self.with_options(self.spark.readStream, name, **options)

    def numbers(self, name):
        """Everything in a stream, with the plain client: numbers in the order of reading."""
        with self.client.event_reader("spark", self.prefix + name, end="tail") as reader:
            return [int(event) for batch in reader.batches() for event in batch]


@pytest.fixture
def streams(spark, server, client):
    return Streams(spark, server.uri, client, f"{next(_numbers)}-")
