"""One table: what the caller of each REST operation needs. Pure.

An operation that the table does not name is denied to everybody. Names of resources are those of the path.

Source: protocol, "REST interface".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from headrace.security.access import NOTHING, Need
from headrace.security.permission import Permission
from headrace.security.resources import ROOT, group_resource, scope_resource, stream_resource

Parameters = Mapping[str, str]
"""The parts of a path that are names, as ``scope`` and ``stream``."""

Rule = Callable[[Parameters], Need]

_READ, _UPDATE = Permission.READ, Permission.READ_UPDATE


def _nothing(_: Parameters) -> Need:
    return NOTHING


def _root(permission: Permission) -> Rule:
    return lambda _: Need(permission, (ROOT,))


def _scope(permission: Permission) -> Rule:
    return lambda names: Need(permission, (scope_resource(names["scope"]),))


def _stream(permission: Permission) -> Rule:
    return lambda names: Need(permission, (stream_resource(names["scope"], names["stream"]),))


def _group(permission: Permission) -> Rule:
    return lambda names: Need(permission, (group_resource(names["scope"], names["group"]),))


_A_SCOPE: Final = "/v1/scopes/{scope}"
_A_STREAM: Final = "/v1/scopes/{scope}/streams/{stream}"
_A_GROUP: Final = "/v1/scopes/{scope}/readergroups/{group}"

RULES: Final[Mapping[tuple[str, str], Rule]] = {
    ("GET", "/ping"): _nothing,
    ("GET", "/openapi.json"): _nothing,
    ("GET", "/docs"): _nothing,
    ("GET", "/docs.css"): _nothing,
    ("GET", "/health"): _nothing,
    ("GET", "/ready"): _nothing,
    ("GET", "/live"): _nothing,
    ("GET", "/metrics"): _root(_READ),
    ("GET", "/v1/scopes"): _root(_READ),
    ("POST", "/v1/scopes"): _root(_UPDATE),
    ("GET", _A_SCOPE): _scope(_READ),
    ("DELETE", _A_SCOPE): _root(_UPDATE),
    ("GET", f"{_A_SCOPE}/streams"): _scope(_READ),
    ("POST", f"{_A_SCOPE}/streams"): _scope(_UPDATE),
    ("GET", _A_STREAM): _stream(_READ),
    ("PUT", _A_STREAM): _stream(_UPDATE),
    ("DELETE", _A_STREAM): _stream(_UPDATE),
    ("PUT", f"{_A_STREAM}/state"): _stream(_UPDATE),
    ("GET", f"{_A_STREAM}/scaling-events"): _stream(_READ),
    ("GET", f"{_A_STREAM}/cut"): _stream(_READ),
    ("PUT", f"{_A_STREAM}/truncation"): _stream(_UPDATE),
    ("POST", f"{_A_STREAM}/purge"): _stream(_UPDATE),
    ("GET", f"{_A_SCOPE}/readergroups"): _scope(_READ),
    ("GET", _A_GROUP): _group(_READ),
    ("DELETE", _A_GROUP): _group(_UPDATE),
    ("GET", "/v1/health"): _nothing,
    ("GET", "/v1/health/{part}"): _nothing,
    ("GET", "/v1/health/readiness"): _nothing,
    ("GET", "/v1/health/readiness/{part}"): _nothing,
    ("GET", "/v1/health/liveness"): _nothing,
    ("GET", "/v1/health/liveness/{part}"): _nothing,
    ("GET", "/v1/health/status"): _nothing,
    ("GET", "/v1/health/status/{part}"): _nothing,
    ("GET", "/v1/health/details"): _root(_UPDATE),
    ("GET", "/v1/health/details/{part}"): _root(_UPDATE),
    ("GET", "/v1/storage/optimiser"): _root(_UPDATE),
    ("PUT", "/v1/storage/optimiser"): _root(_UPDATE),
    ("GET", "/v1/debug/statistics"): _root(_UPDATE),
    ("GET", "/v1/debug/failed-events"): _root(_UPDATE),
}
"""By verb and path, without a slash at its end. A HEAD is a GET."""
