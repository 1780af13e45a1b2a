"""The OpenAPI document of the REST interface, made of the table of operations, the models and the rules.

Pure. Source: the specification of OpenAPI 3.1.
"""

from __future__ import annotations

import re
from typing import Any, Final

from msgspec.json import schema_components

from headrace.controller.rest.operations import OPERATIONS, PARAMETERS, Operation
from headrace.controller.rest.rules import RULES
from headrace.security.permission import Permission
from headrace.web.models import Refusal
from headrace.web.origin_rules import NAMELESS_PATHS

Document = dict[str, Any]

_NAMES: Final = re.compile(r"\{(\w+)\}")
_REFUSALS: Final = {
    400: "What was sent is malformed or out of range.",
    401: "Credentials are missing or wrong.",
    403: "The user lacks the permission; or a web page of another origin asks for a change.",
    404: "There is no such thing.",
    409: "It exists.",
    412: "Its state does not allow it.",
    413: "The body is larger than 1 MiB.",
    415: "The body comes without the header Content-Type: application/json.",
    421: "The name in the header Host is none of this server's.",
    500: "A mistake of the server, or what the operation says.",
    503: "The server starts, stops or is not ready: try again.",
}


def openapi_document(version: str) -> Document:
    """Return the whole document of a server of this version."""
    types = [kind for each in OPERATIONS.values() for kind in (each.answers, each.body) if kind is not None]
    kinds = list({id(kind): kind for kind in [*types, Refusal]}.values())
    found, components = schema_components(kinds, ref_template="#/components/schemas/{name}")
    schemas = {id(kind): schema for kind, schema in zip(kinds, found, strict=True)}
    paths: dict[str, Document] = {}
    for (verb, path), operation in OPERATIONS.items():
        paths.setdefault(path, {})[verb.lower()] = _operation(verb, path, operation, schemas)
    for path, verbs in paths.items():
        names = _NAMES.findall(path)
        if names:
            verbs["parameters"] = [
                {
                    "name": name,
                    "in": "path",
                    "required": True,
                    "description": PARAMETERS[name],
                    "schema": {"type": "string"},
                }
                for name in names
            ]
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Headrace",
            "version": version,
            "description": "Scopes, streams and the state of a server. Paths below /v1 are those of Pravega, "
            "and some of our own. A server without users asks nobody for credentials.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{}, {"basic": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"basic": {"type": "http", "scheme": "basic"}},
        },
    }


def need_of(verb: str, path: str) -> str:
    """Return what a user needs for an operation, in words; empty if nothing."""
    need = RULES[verb, path]({name: f"{{{name}}}" for name in _NAMES.findall(path)})
    if need.permission is Permission.NONE:
        return ""
    return f"{need.permission.name} on {' or '.join(need.resources)}"


def _operation(verb: str, path: str, operation: Operation, schemas: dict[int, Document]) -> Document:
    need = need_of(verb, path)
    described: Document = {"operationId": operation.name, "summary": operation.text, "tags": [_tag(path)]}
    if need:
        described["description"] = f"A user needs {need}."
    else:
        described["security"] = []
    if operation.options:
        described["parameters"] = [
            {
                "name": option.name,
                "in": "query",
                "required": option.required,
                "description": option.text,
                "schema": {"type": "integer" if option.kind is int else "string"},
            }
            for option in operation.options
        ]
    if operation.body is not None:
        content = {"application/json": {"schema": schemas[id(operation.body)]}}
        described["requestBody"] = {"required": True, "content": content}
    described["responses"] = _responses(path, operation, schemas, has_need=bool(need))
    return described


def _responses(path: str, operation: Operation, schemas: dict[int, Document], *, has_need: bool) -> Document:
    done: Document = {"description": "Done."}
    if operation.answers is not None:
        done["content"] = {operation.content_type: {"schema": schemas[id(operation.answers)]}}
    statuses = set(operation.refusals)
    if operation.options or operation.body is not None:
        statuses.add(400)
    if operation.body is not None:
        statuses |= {413, 415}
    if path not in NAMELESS_PATHS:
        statuses.add(421)
    if has_need:
        statuses |= {401, 403}
    if "{" in path:
        statuses.add(404)
    if path.startswith("/v1/scopes"):
        statuses.add(503)
    schema = schemas[id(operation.answers if path in {"/ready", "/live"} else Refusal)]
    refused = {"application/json": {"schema": schema}}
    return {str(operation.status): done} | {
        str(status): {"description": _REFUSALS[status], "content": refused} for status in sorted(statuses)
    }


def _tag(path: str) -> str:
    parts = path.strip("/").split("/")
    if parts[0] != "v1":
        return "server"
    return next((name for name in ("readergroups", "streams") if name in parts), parts[1])
