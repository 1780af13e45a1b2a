import asyncio
import subprocess
import sys

import pytest

from headrace.errors import InvalidArgumentError
from headrace.runtime import loops


async def kind_of_loop():
    return type(asyncio.get_running_loop()).__module__


def test_asyncio_can_be_forced():
    assert loops.run(kind_of_loop(), kind="asyncio").startswith("asyncio")


def test_uvloop_is_taken_when_it_is_installed():
    pytest.importorskip("uvloop")
    assert loops.run(kind_of_loop()) == "uvloop"
    assert loops.run(kind_of_loop(), kind="uvloop") == "uvloop"


def test_without_uvloop_auto_falls_back_and_an_explicit_wish_is_refused(monkeypatch):
    monkeypatch.setattr(loops.importlib.util, "find_spec", lambda name: None)
    assert loops.run(kind_of_loop()).startswith("asyncio")
    with pytest.raises(InvalidArgumentError, match="not installed"):
        loops.run(kind_of_loop(), kind="uvloop")


@pytest.mark.slow
def test_a_python_without_assertions_is_refused():
    code = """
from headrace.runtime import loops
from headrace.errors import InvalidArgumentError
async def main(): pass
try:
    loops.run(main())
except InvalidArgumentError as error:
    print("refused")
"""
    out = subprocess.run([sys.executable, "-O", "-c", code], capture_output=True, check=True, text=True)
    assert out.stdout == "refused\n"
    assert out.stderr == ""
