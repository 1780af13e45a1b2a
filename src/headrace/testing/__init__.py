"""Servers and fixtures for tests of programs that use Headrace, and the kit that tests Headrace itself.

Public, and stable as the client is: :class:`LocalServer`, :class:`ServerDiedError`, and the fixtures of
pytest that :mod:`headrace.testing.pytest_plugin` brings along.

>>> with headrace.testing.LocalServer() as server, headrace.connect(server.uri) as client:
...     client.create_scope("mine")
True

All other modules are for authors of providers and logs, and for contributors: simulated time, disks and
networks, histories with their checkers, and conformance kits. ``docs/contributing/simulation.md`` says how to
simulate. Nothing in the product imports them but the demo, which starts a local server.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for type checkers; a run of tests that starts no server does not pay for it
    from headrace.testing.local_server import LocalServer, ServerDiedError

__all__ = ["LocalServer", "ServerDiedError"]


if not TYPE_CHECKING:  # else a checker takes every name for one of ours

    def __getattr__(name: str) -> Any:
        if name in __all__:
            return getattr(importlib.import_module("headrace.testing.local_server"), name)
        raise AttributeError(f"module 'headrace.testing' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *globals()})
