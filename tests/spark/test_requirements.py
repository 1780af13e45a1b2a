"""A library that workers lack is said at every door, before one of them crashes."""

import os
import subprocess
import sys

import pytest

from tests.effort import is_long
from tests.tidy.source_tree import ROOT

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(
        not is_long() and os.environ.get("SPARK_CLUSTER_TESTED") != "all",
        reason="takes a JVM of its own: make spark-cluster",
    ),
]

JOB = """
import os, sys
from headrace.spark import register
from tests.spark.conftest import make_session

os.environ["PYTHONPATH"] = os.pathsep.join((sys.argv[1], os.environ["PYTHONPATH"]))  # that of the workers
spark = make_session()
register(spark)
options = {"controller": "tcp://localhost:1", "scope": "no", "stream": "no"}
rows = spark.range(1).selectExpr("cast(id as string) event")
stream = spark.readStream.format("rate").load().selectExpr("cast(value as string) event")
doors = {
    "read": lambda: spark.read.format("headrace").options(**options).load(),
    "readStream": lambda: spark.readStream.format("headrace").options(**options).load(),
    "write": lambda: rows.write.format("headrace").options(**options).mode("append").save(),
    "writeStream": lambda: stream.writeStream.format("headrace").options(**options)
        .option("checkpointLocation", sys.argv[1] + "/checkpoint").start().awaitTermination(60),
}
for name, door in doors.items():
    try:
        door()
    except Exception as error:
        print(name, str(error).replace("\\n", " "))
"""


def test_workers_without_pyarrow_say_what_to_install(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['pyarrow'] = None\n")
    done = subprocess.run(
        [sys.executable, "-c", JOB, str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    said = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert list(said) == ["read", "readStream", "write", "writeStream"]
    for text in said.values():
        assert "the format headrace of Spark needs pyarrow" in text
        assert "pip install 'headrace[spark]'" in text
