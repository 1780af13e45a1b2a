"""One table: what the caller of each REST operation needs. Pure.

An operation that the table does not name is denied to everybody. Names of resources are those of the path.

Source: protocol, "REST interface".
"""

from __future__ import annotations

from typing import Final

from headrace.security.access import Need
from headrace.security.permission import Permission
from headrace.security.resources import group_resource, scope_resource, stream_resource
from headrace.web.rules import PROCESS_RULES, Rule, Rules, nothing, on_root

_READ, _UPDATE = Permission.READ, Permission.READ_UPDATE


def _scope(permission: Permission) -> Rule:
    return lambda names: Need(permission, (scope_resource(names["scope"]),))


def _stream(permission: Permission) -> Rule:
    return lambda names: Need(permission, (stream_resource(names["scope"], names["stream"]),))


def _group(permission: Permission) -> Rule:
    return lambda names: Need(permission, (group_resource(names["scope"], names["group"]),))


_A_SCOPE: Final = "/v1/scopes/{scope}"
_A_STREAM: Final = "/v1/scopes/{scope}/streams/{stream}"
_A_GROUP: Final = "/v1/scopes/{scope}/readergroups/{group}"

RULES: Final[Rules] = {
    **PROCESS_RULES,
    ("GET", "/ping"): nothing,
    ("GET", "/openapi.json"): nothing,
    ("GET", "/docs"): nothing,
    ("GET", "/docs.css"): nothing,
    ("GET", "/v1/scopes"): on_root(_READ),
    ("POST", "/v1/scopes"): on_root(_UPDATE),
    ("GET", "/v1/streams"): on_root(_READ),
    ("GET", _A_SCOPE): _scope(_READ),
    ("DELETE", _A_SCOPE): on_root(_UPDATE),
    ("GET", f"{_A_SCOPE}/streams"): _scope(_READ),
    ("POST", f"{_A_SCOPE}/streams"): _scope(_UPDATE),
    ("GET", _A_STREAM): _stream(_READ),
    ("PUT", _A_STREAM): _stream(_UPDATE),
    ("DELETE", _A_STREAM): _stream(_UPDATE),
    ("PUT", f"{_A_STREAM}/state"): _stream(_UPDATE),
    ("GET", f"{_A_STREAM}/scaling-events"): _stream(_READ),
    ("GET", f"{_A_STREAM}/cut"): _stream(_READ),
    ("GET", f"{_A_STREAM}/events"): _stream(_READ),
    ("POST", f"{_A_STREAM}/events"): _stream(_UPDATE),
    ("PUT", f"{_A_STREAM}/truncation"): _stream(_UPDATE),
    ("POST", f"{_A_STREAM}/purge"): _stream(_UPDATE),
    ("GET", f"{_A_SCOPE}/readergroups"): _scope(_READ),
    ("GET", _A_GROUP): _group(_READ),
    ("DELETE", _A_GROUP): _group(_UPDATE),
    ("GET", "/v1/cluster/health"): on_root(_UPDATE),
    ("GET", "/v1/debug/failed-events"): on_root(_UPDATE),
}
"""By verb and path, without a slash at its end. A HEAD is a GET."""
