"""Runs tests on every supported version of Python that is installed, each in an environment of its own.

``make matrix`` calls this. What it runs comes from its arguments, which go to pytest as they are. The
environments are ``.venv-3.12`` and so on, made by ``make setup`` as the usual one is; they stay for the next
run.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSIONS = ("3.11", "3.12", "3.13")


def find_python(version: str) -> str | None:
    """Return an interpreter of ``version`` that runs: what PATH has may only say how to install one."""
    for path in _candidates(version):
        probe = "import sys, ensurepip; print('%d.%d' % sys.version_info[:2])"
        found = subprocess.run([path, "-c", probe], capture_output=True, text=True, check=False)
        if found.returncode == 0 and found.stdout.strip() == version:
            return path
    return None


def _candidates(version: str) -> Iterator[str]:
    """Yield programs that may be Python ``version``: on PATH, and kept by pyenv, of which one is on PATH."""
    for folder in os.get_exec_path():
        path = shutil.which(f"python{version}", path=folder)
        if path is not None:
            yield path
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for found in sorted(kept.glob(f"{version}.*/bin/python{version}")):
        yield str(found)


def run(version: str, python: str, pytest_args: list[str]) -> int:
    """Make the environment of ``version`` if it is not there, run the tests in it; return how that ended."""
    environment = f".venv-{version}"
    made = subprocess.run(["make", "setup", f"PYTHON={python}", f"VENV={environment}"], cwd=ROOT, check=False)
    if made.returncode:
        return made.returncode
    program = [f"{environment}/bin/python", "-m", "pytest", "-q", *pytest_args]
    return subprocess.run(program, cwd=ROOT, check=False).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--versions", default=" ".join(VERSIONS), help="separated by spaces")
    arguments, pytest_args = parser.parse_known_args()
    results: dict[str, str] = {}
    failed = False
    for version in arguments.versions.split():
        python = find_python(version)
        if python is None:
            results[version] = "not installed"
            continue
        print(f"== Python {version} ({python})", flush=True)
        status = run(version, python, pytest_args)
        results[version] = f"failed ({status})" if status else "passed"
        failed |= status != 0
    print("== " + ", ".join(f"Python {version}: {result}" for version, result in results.items()))
    return 1 if failed or "passed" not in results.values() else 0


if __name__ == "__main__":
    sys.exit(main())
