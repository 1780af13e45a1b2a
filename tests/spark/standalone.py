"""A Spark of several processes on this machine: a master and workers, out of PySpark's own jars."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pyspark

QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of a Java that runs for seconds: it compiles less."""

HOME = Path(pyspark.__file__).parent
ROOT = Path(__file__).parents[2]


class SparkCluster:
    """A standalone master with workers of one core each, on loopback and free ports. A context manager."""

    def __init__(self, directory, workers=2, pythonpath=(ROOT / "src", ROOT)):
        self._directory = directory
        self._count = workers
        self._pythonpath = os.pathsep.join(map(str, pythonpath))
        self._processes = []
        self.uri = ""

    def start(self, name, *arguments, **environment):
        """Start a program of Spark; its output goes to a file."""
        log = self._directory / f"{name}.log"
        settings = {
            **os.environ,
            "SPARK_HOME": str(HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": QUICK_START,
            "PYTHONPATH": self._pythonpath,
            **environment,
        }
        with log.open("wb") as output:
            command = [str(HOME / "bin" / "spark-class"), *map(str, arguments)]
            process = subprocess.Popen(
                command,
                cwd=self._directory,
                env=settings,
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
            )
        self._processes.append(process)
        return log, process

    def wait(self, log, process, pattern, seconds=120):
        """Return what a pattern finds in the output of a program that runs."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = re.search(pattern, log.read_text(errors="replace"))
            if found:
                return found
            if process.poll() is not None:
                break
            time.sleep(0.05)
        raise AssertionError(f"{pattern} is not in the output:\n{log.read_text(errors='replace')[-3000:]}")

    def __enter__(self):
        listen = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        try:
            master = self.start("master", "org.apache.spark.deploy.master.Master", *listen)
            self.uri = self.wait(*master, r"Starting Spark master at (spark://\S+)")[1]
            workers = [
                self.start(
                    f"worker-{index}",
                    "org.apache.spark.deploy.worker.Worker",
                    *listen,
                    *("--cores", "1", "--memory", "1g", "--work-dir", self._directory / f"work-{index}"),
                    self.uri,
                )
                for index in range(self._count)
            ]
            for worker in workers:
                self.wait(*worker, "Successfully registered with master")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in reversed(self._processes):
            process.terminate()  # a worker ends its executors
        for process in reversed(self._processes):
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(20)

    def submit(
        self,
        script,
        *arguments,
        options=(),
        python=sys.executable,
        directory=None,
        seconds=200,
        **environment,
    ):
        """Run a script with spark-submit to its end; return its standard output."""
        done = subprocess.run(
            [
                str(HOME / "bin" / "spark-submit"),
                *("--master", self.uri, "--executor-memory", "512m", "--driver-memory", "512m"),
                *("--conf", "spark.ui.enabled=false", "--conf", "spark.log.level=ERROR"),
                *("--conf", "spark.sql.shuffle.partitions=2"),
                *("--conf", f"spark.executor.extraJavaOptions={QUICK_START}"),
                *("--driver-java-options", QUICK_START),
                *map(str, options),
                *map(str, (script, *arguments)),
            ],
            cwd=directory or self._directory,
            env={
                **os.environ,
                "SPARK_HOME": str(HOME),
                "SPARK_LOCAL_IP": "127.0.0.1",
                "PYTHONPATH": self._pythonpath,
                "PYSPARK_PYTHON": str(python),
                "PYSPARK_DRIVER_PYTHON": str(python),
                **environment,
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-4000:] + done.stdout[-2000:]
        return done.stdout
