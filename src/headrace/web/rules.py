"""What tells the need of an operation, and one table: the rules of what every process answers. Pure.

Source: protocol, "REST interface".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from headrace.security.access import NOTHING, Need
from headrace.security.permission import Permission
from headrace.security.resources import ROOT

Parameters = Mapping[str, str]
"""The parts of a path that are names, as ``scope`` and ``stream``."""

Rule = Callable[[Parameters], Need]
Rules = Mapping[tuple[str, str], Rule]
"""By verb and path, without a slash at its end. A HEAD is a GET."""


def nothing(_: Parameters) -> Need:
    """Everybody may."""
    return NOTHING


def on_root(permission: Permission) -> Rule:
    """Return the rule for what concerns the server as a whole."""
    return lambda _: Need(permission, (ROOT,))


PROCESS_RULES: Final[Rules] = {
    ("GET", "/health"): nothing,
    ("GET", "/ready"): nothing,
    ("GET", "/live"): nothing,
    ("GET", "/metrics"): on_root(Permission.READ),
    ("GET", "/v1/health"): nothing,
    ("GET", "/v1/health/{part}"): nothing,
    ("GET", "/v1/health/readiness"): nothing,
    ("GET", "/v1/health/readiness/{part}"): nothing,
    ("GET", "/v1/health/liveness"): nothing,
    ("GET", "/v1/health/liveness/{part}"): nothing,
    ("GET", "/v1/health/status"): nothing,
    ("GET", "/v1/health/status/{part}"): nothing,
    ("GET", "/v1/health/details"): on_root(Permission.READ_UPDATE),
    ("GET", "/v1/health/details/{part}"): on_root(Permission.READ_UPDATE),
    ("GET", "/v1/storage/optimiser"): on_root(Permission.READ_UPDATE),
    ("PUT", "/v1/storage/optimiser"): on_root(Permission.READ_UPDATE),
    ("GET", "/v1/debug/statistics"): on_root(Permission.READ_UPDATE),
}
"""Health, metrics and statistics, whatever the parts of the process are."""
