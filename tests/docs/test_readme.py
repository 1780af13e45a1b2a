"""The README's example is run as it stands, only against another address."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.testing import LocalServer

README = Path(__file__).parents[2] / "README.md"


@pytest.mark.slow
@pytest.mark.cluster
def test_the_ten_lines_of_python_work(tmp_path):
    code = re.search(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert code is not None
    with LocalServer(tmp_path) as server:
        program = code.group(1).replace("tcp://localhost:9090", server.uri)
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        assert sorted(map(ast.literal_eval, done.stdout.splitlines()), key=str) == [
            {"customer": "Ada", "price": 12},
            {"customer": "Bob", "price": 95},
        ]
        assert server.stop() == 0


def test_the_two_commands_are_recipes():
    makefile = README.with_name("Makefile").read_text()
    for command in re.findall(r"^make (\w+) ", README.read_text(), re.MULTILINE):
        assert re.search(rf"^{command}:", makefile, re.MULTILINE), command
