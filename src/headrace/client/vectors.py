"""numpy and pyarrow if they are installed, imported when first needed: both are optional and slow to import.

Making an array of Python objects makes pyarrow import pandas as well, which takes a second. Event loops do
not wait for that: lists are turned into arrays only where everything is loaded already, and have a
plain-Python way otherwise.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Final

from headrace.limits import KIB
from headrace.runtime.extras import require

_WORTH_IMPORTING_BYTES: Final = 64 * KIB


@cache
def find_numpy() -> ModuleType | None:
    """Return numpy, or None if it is not installed."""
    if find_spec("numpy") is None:
        return None
    import numpy as np

    return np


def numpy_for(size_bytes: int) -> ModuleType | None:
    """Return numpy if it is loaded, or worth loading for so many bytes."""
    if "numpy" in sys.modules or size_bytes >= _WORTH_IMPORTING_BYTES:
        return find_numpy()
    return None


@cache
def find_arrow() -> ModuleType | None:
    """Return pyarrow with its compute functions loaded, or None if it or numpy is not installed."""
    if find_numpy() is None or find_spec("pyarrow") is None:
        return None
    import pyarrow as pa
    import pyarrow.compute as _compute  # noqa: F401 - registers the kernels

    return pa


def get_arrow() -> ModuleType:
    """Return pyarrow with its compute functions loaded.

    Raises:
        UnsupportedError: pyarrow or numpy is not installed.
    """
    arrow = find_arrow()
    if arrow is None:
        require("this call", "arrow", "pyarrow", "numpy")
    assert arrow is not None
    return arrow


def arrow_for_objects() -> ModuleType | None:
    """Return pyarrow if arrays of Python objects can be made at once, without importing anything large."""
    if "pyarrow" not in sys.modules or "numpy" not in sys.modules:
        return None
    if "pandas" not in sys.modules and find_spec("pandas") is not None:
        return None
    return find_arrow()


def is_arrow(value: Any) -> bool:
    """Tell whether ``value`` is an array or chunked array of pyarrow."""
    pa = sys.modules.get("pyarrow")
    return pa is not None and isinstance(value, (pa.Array, pa.ChunkedArray))


def int32_array(values: Any) -> Any:
    """Wrap a numpy array of int32 as a ``pyarrow`` array without copying."""
    pa = get_arrow()
    return pa.Array.from_buffers(pa.int32(), len(values), [None, pa.py_buffer(values)])
