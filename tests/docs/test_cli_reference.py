"""The page about the command line is what the commands say about themselves."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_is_fresh():
    tool = ROOT / "tools" / "generate_cli_reference.py"
    done = subprocess.run([sys.executable, str(tool), "--check"], timeout=60, check=False)
    assert done.returncode == 0, "run tools/generate_cli_reference.py"
