"""What every test may rely on, however the run was started."""

import signal

from hypothesis import settings

import tests.effort  # noqa: F401 - registers the profiles

settings.load_profile("check")  # unless --hypothesis-profile names another one

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A run in the background of a shell ignores interrupts, and so would every process that a test starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items):
    """Tests of Spark come first: the worker that has them keeps them, and few others start Java for a few.

    A session starts in a young process, too (tests/spark/conftest.py says why that is good).
    """
    items.sort(key=lambda item: "tests/spark/" not in item.path.as_posix())
