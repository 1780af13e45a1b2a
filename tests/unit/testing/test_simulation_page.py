"""The page about simulation shows code that runs and names things that exist."""

import importlib
import re
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "contributing" / "simulation.md"


def test_the_first_example_runs():
    code = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[1]
    exec(compile(code.replace("range(100)", "range(3)"), str(PAGE), "exec"), {"__name__": "example"})


def test_every_module_the_page_names_exists():
    named = re.findall(r"`((?:testing|runtime)/[\w/]+\.py)`", PAGE.read_text())
    assert len(named) > 4
    for path in named:
        importlib.import_module("headrace." + path.removesuffix(".py").replace("/", "."))
