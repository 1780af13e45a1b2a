"""Headrace: tiered streaming storage in Python.

The names of :mod:`headrace.client` are available here as well; they are imported when first used, so that servers and
command lines do not pay for them.
"""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    from headrace import client

    if name not in client.__all__:
        raise AttributeError(f"module 'headrace' has no attribute {name!r}")
    return getattr(client, name)


def __dir__() -> list[str]:
    from headrace import client

    return sorted([*globals(), *client.__all__])
