"""The README's example is run as it stands, only against another address."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.testing import LocalServer
from tests.docs.page_blocks import blocks_of
from tests.docs.page_runner import PageRunner, run_page

README = Path(__file__).parents[2] / "README.md"


GUIDE = README.parent / "docs" / "guides" / "first-stream.md"


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.parametrize("before", [(), (GUIDE,)], ids=["alone", "after the first guide"])
def test_the_ten_lines_of_python_work(tmp_path, before):
    code = re.search(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert code is not None
    with LocalServer(tmp_path / "server") as server:
        runner = PageRunner(tmp_path / "page", server)
        for page in before:
            run_page(runner, page.name, blocks_of(page.read_text()))
        program = code.group(1).replace("tcp://localhost:9090", runner.uri)
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", program],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert sorted(map(ast.literal_eval, done.stdout.splitlines()), key=str) == [
            {"customer": "Ada", "price": 12},
            {"customer": "Bob", "price": 95},
        ]
        runner.close()
        assert server.stop() == 0


def test_the_two_commands_are_recipes():
    makefile = README.with_name("Makefile").read_text()
    for command in re.findall(r"^make (\w+) ", README.read_text(), re.MULTILINE):
        assert re.search(rf"^{command}:", makefile, re.MULTILINE), command


PAGES = [README, *sorted((README.parent / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_line_installs_what_is_in_no_index_yet(page):
    for line in re.findall(r"^\S*pip (?:install|download) .*", page.read_text(), re.MULTILINE):
        names = re.findall(r"(?<![\w./-])headrace(?![\w-]*\.whl|-)", line.partition("#")[0])
        assert not names, f"{line}: a checkout, or the wheel, is named"
