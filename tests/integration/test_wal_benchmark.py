"""The benchmark of the log runs, moves what it says, and reads it back."""

import runpy
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "wal.py"


def test_the_smoke_size_prints_a_ratio_for_every_frame_size(tmp_path, capsys):
    benchmark = runpy.run_path(str(SCRIPT), run_name="benchmark_wal")
    ratios = benchmark["main"](["--smoke", "--directory", str(tmp_path)])
    assert len(ratios) == 3
    assert all(ratio > 0 for ratio in ratios)
    assert "read back" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []
