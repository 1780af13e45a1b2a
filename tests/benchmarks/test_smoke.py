"""Every benchmark still runs, at its smallest size, and checks what it moved."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.run import BENCHMARKS
from tests.effort import is_long

ROOT = Path(__file__).parents[2]
ELSEWHERE = {"benchmarks.spark_rates", "benchmarks.wal"}  # run by the tests of Spark and of the log


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.skipif(not is_long(), reason="takes long: make bench-smoke, make soak")
@pytest.mark.parametrize("name", [name for name in BENCHMARKS if name not in ELSEWHERE])
def test_a_benchmark_runs_at_its_smallest_size(name):
    done = subprocess.run(
        [sys.executable, "-m", name, "--smoke"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip()
