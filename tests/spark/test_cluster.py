"""A job on a master and two workers: shipped as a zip, and with an executor that is killed on the way."""

import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from headrace.client import ScalingPolicy, StreamConfiguration
from tests.effort import is_long
from tests.spark.standalone import HOME, ROOT, SparkCluster

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.cluster]


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """An environment with the libraries of this one, and without headrace if that is installed editable."""
    directory = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", directory], check=True)
    (packages,) = directory.glob("lib/*/site-packages")
    (packages / "libraries.pth").write_text(f"{HOME.parent}\n")
    return directory


@pytest.fixture(scope="module")
def shipped(tmp_path_factory):
    """The package as a zip, as a wheel is one."""
    stem = tmp_path_factory.mktemp("shipped") / "headrace"
    return shutil.make_archive(str(stem), "zip", ROOT / "src")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with SparkCluster(tmp_path_factory.mktemp("cluster"), pythonpath=()) as started:
        yield started


@pytest.fixture(scope="module")
def events(client):
    """A scope with 500 events in one stream, and another stream."""
    client.create_scope("shop")
    for name in ("in", "out"):
        client.create_stream("shop", name, StreamConfiguration(scaling=ScalingPolicy.fixed(2)))
    with client.event_writer("shop", "in") as writer:
        for number in range(500):
            writer.write(f"{number}".encode(), f"key {number % 5}")


def numbers_of(client, stream):
    with client.event_reader("shop", stream, end="tail") as reader:
        return Counter(int(event) for batch in reader.batches() for event in batch)


@pytest.mark.skipif(
    not is_long() and os.environ.get("SPARK_CLUSTER_TESTED") != "all",
    reason="takes a master and two workers: make spark-cluster, make soak",
)
def test_a_shipped_job_writes_once_although_an_executor_is_killed(
    cluster, bare, shipped, server, client, events, tmp_path
):
    (tmp_path / "flag").touch()
    printed = cluster.submit(
        ROOT / "tests" / "spark" / "cluster_job.py",
        *(server.uri, "shop", tmp_path / "flag", tmp_path / "checkpoint"),
        options=("--py-files", shipped),
        python=bare / "bin" / "python",
        PYTHONPATH=shipped,  # of the driver: streaming reads are planned there, without shipped files
    )
    assert "rows 500" in printed
    assert not (tmp_path / "flag").exists()
    assert numbers_of(client, "out") == Counter(range(500))


# ------------------------------------------------------------------------- the other ways: make spark-cluster

EVERY = pytest.mark.skipif(
    os.environ.get("SPARK_CLUSTER_TESTED") != "all", reason="takes minutes: make spark-cluster"
)

JOB = """
import sys
from headrace.spark import register
from pyspark.sql import SparkSession

uri, checkpoint, remote = sys.argv[1:]
builder = SparkSession.builder
spark = (builder.remote(remote) if remote else builder).getOrCreate()
register(spark)

def at(builder):
    return builder.format("headrace").option("controller", uri)

print("rows", at(spark.read).schema("event string").load("shop/in").count())
events = at(spark.readStream).option("startingOffsets", "earliest").load("shop/in").select("event")
query = at(events.writeStream).option("checkpointLocation", checkpoint).trigger(availableNow=True)
query = query.start("shop/" + sys.argv[2].rpartition("/")[2])
print("ended", query.awaitTermination(120))
"""

PIPELINE = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

spark = SparkSession.active()
server = {"controller": "URI"}
dp.create_sink("copies", "headrace", {"path": "shop/copies", **server})

@dp.append_flow(target="copies")
def copy():
    events = spark.readStream.format("headrace").options(**server).option("startingOffsets", "earliest")
    return events.load("shop/in").select("event")
"""


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    path = tmp_path_factory.mktemp("job") / "job.py"
    path.write_text(JOB)
    return path


@pytest.fixture
def target(client, request):
    """A stream of the scope, with the name of what is tested."""
    client.create_stream("shop", request.param, StreamConfiguration())
    return request.param


@EVERY
@pytest.mark.parametrize("target", ["archived"], indirect=True)
def test_an_environment_is_shipped_as_an_archive(
    cluster, bare, job, server, client, events, tmp_path, target
):
    # A small environment, as venv-pack would make one that has the libraries inside.
    environment = tmp_path / "cwd" / "environment"
    shutil.copytree(bare, environment, symlinks=True)
    (packages,) = environment.glob("lib/*/site-packages")
    shutil.copytree(ROOT / "src", packages, dirs_exist_ok=True)
    archive = shutil.make_archive(str(tmp_path / "env"), "gztar", environment)
    printed = cluster.submit(
        job,
        *(server.uri, tmp_path / target, ""),
        options=("--archives", f"{archive}#environment"),
        python="./environment/bin/python",
        directory=environment.parent,
    )
    assert "rows 500" in printed
    assert numbers_of(client, target) == Counter(range(500))


@pytest.fixture(scope="module")
def remote(cluster, tmp_path_factory):
    """A server of Spark Connect on the cluster, and a client's environment without Java's part of Spark."""
    package = "org.apache.spark.sql.connect.service.SparkConnectServer"
    settings = {"binding.port": 0, "binding.address": "127.0.0.1"}
    started = cluster.start(
        "connect",
        *("org.apache.spark.deploy.SparkSubmit", "--class", package, "--master", cluster.uri),
        *("--executor-memory", "512m", "--conf", "spark.ui.enabled=false"),
        *(
            word
            for key, value in settings.items()
            for word in ("--conf", f"spark.connect.grpc.{key}={value}")
        ),
        "spark-internal",
        SPARK_DAEMON_MEMORY="768m",
        PYSPARK_PYTHON=sys.executable,
        PYTHONPATH=f"{ROOT / 'src'}",
    )
    port = cluster.wait(*started, r"Spark Connect server started at: \S*:(\d+)")[1]
    return f"sc://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def thin():
    """An environment with the client of Spark Connect, kept in the user's cache."""
    directory = Path.home() / ".cache" / "headrace" / "spark-connect"
    python = directory / "bin" / "python"
    if not (directory / "made").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", directory], check=True)
        wanted = ["pyspark-client>=4.2", "pyarrow>=18", "crc32c>=2.7", "pyjwt>=2.10"]
        subprocess.run([python, "-m", "pip", "install", "--quiet", *wanted], check=True)
        (directory / "made").touch()
    return python


def run_thin(python, *command, cwd):
    programs = dict.fromkeys(("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"), str(python))
    environment = {**os.environ, **programs, "PYTHONPATH": f"{ROOT / 'src'}"}
    done = subprocess.run(
        [*map(str, command)],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return done.stdout


@EVERY
@pytest.mark.parametrize("target", ["connected"], indirect=True)
def test_a_client_without_java_uses_spark_connect(
    remote, thin, job, server, client, events, tmp_path, target
):
    printed = run_thin(thin, thin, job, server.uri, tmp_path / target, remote, cwd=tmp_path)
    assert "rows 500" in printed
    assert numbers_of(client, target) == Counter(range(500))


@EVERY
@pytest.mark.parametrize("target", ["copies"], indirect=True)
def test_a_declarative_pipeline_copies_a_stream_once(remote, thin, server, client, events, tmp_path, target):
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "copy.py").write_text(PIPELINE.replace("URI", server.uri))
    (tmp_path / "spark-pipeline.yml").write_text(
        f"name: copies\nstorage: file://{tmp_path}/storage\nlibraries:\n  - glob:\n      include: flows/**\n"
    )
    for _ in range(2):
        run_thin(thin, HOME / "bin" / "spark-pipelines", "--remote", remote, "run", cwd=tmp_path)
        assert numbers_of(client, target) == Counter(range(500))
