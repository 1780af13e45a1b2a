"""numpy and pyarrow if they are installed, imported when first needed: both are optional and slow to
import.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from types import ModuleType

from headrace.errors import UnsupportedError


@cache
def find_numpy() -> ModuleType | None:
    """Return numpy, or None if it is not installed."""
    if find_spec("numpy") is None:
        return None
    import numpy as np

    return np


def get_arrow() -> ModuleType:
    """Return pyarrow with its compute functions loaded.

    Raises:
        UnsupportedError: pyarrow or numpy is not installed.
    """
    arrow = find_arrow()
    if arrow is None:
        raise UnsupportedError("this call needs pyarrow and numpy: install headrace[arrow]")
    return arrow


@cache
def find_arrow() -> ModuleType | None:
    """Return pyarrow with its compute functions loaded, or None if it or numpy is not installed."""
    if find_numpy() is None or find_spec("pyarrow") is None:
        return None
    import pyarrow as pa
    import pyarrow.compute as _compute  # noqa: F401 - registers the kernels

    return pa
