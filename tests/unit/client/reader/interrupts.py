"""Ctrl-C at any place of the client's code, one after the other."""

import sys
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import headrace.client

_OURS = str(Path(headrace.client.__file__).parent)
_OTHERS = {"futures", "asyncio"}
"""Not those that Python calls by itself, such as for garbage: they swallow what is raised."""


@contextmanager
def interrupted(count):
    """Raise KeyboardInterrupt once, at one of the places where Python lets one in: the ``count``-th of those
    in the client. They are where a function begins, and where one ends that is not written in Python, or
    is one of others that end in such a one.
    """
    left = count

    def is_ours(frame):
        return frame is not None and frame.f_code.co_filename.startswith(_OURS)

    def look(frame, event, _):
        nonlocal left
        if is_ours(frame):
            is_place = event in {"call", "c_return"}
        else:
            is_called = is_ours(frame.f_back) and Path(frame.f_code.co_filename).parent.name in _OTHERS
            is_place = is_called and event in {"call", "return"}
        if is_place:
            left -= 1
            if left < 0:
                sys.setprofile(None)
                raise KeyboardInterrupt

    sys.setprofile(look)
    try:
        yield
    finally:
        sys.setprofile(None)


def until_uninterrupted(attempt):
    """Call ``attempt(at)`` for each place; it returns whether it came so far. Return how many there are."""
    return next(at for at in count() if not attempt(at))
