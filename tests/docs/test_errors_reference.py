"""The page about errors is what the classes and the table of statuses say."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_is_fresh():
    tool = ROOT / "tools" / "generate_errors_reference.py"
    done = subprocess.run([sys.executable, str(tool), "--check"], timeout=60, check=False)
    assert done.returncode == 0, "run tools/generate_errors_reference.py"
