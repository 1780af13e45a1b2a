"""Headrace: tiered streaming storage in Python.

The names of :mod:`headrace.client` are available here as well. They are imported when first used, so that
servers and command lines do not pay for them.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if not name.startswith("_"):
        client = importlib.import_module("headrace.client")
        if name in client.__all__:
            return getattr(client, name)
    raise AttributeError(f"module 'headrace' has no attribute {name!r}")
