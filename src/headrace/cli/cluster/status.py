"""What ``headrace cluster status`` does: looks at the nodes of a cluster once, and says what they mean."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import replace
from typing import Any

from click.exceptions import Exit

from headrace.cli.cluster.cluster_session import in_session
from headrace.cli.output import counted, print_columns, print_fields, print_json, print_line, progress
from headrace.cli.servers import Connection
from headrace.cluster.levels import spoken
from headrace.cluster.status import document_of
from headrace.controller.buckets.cluster_look import look
from headrace.errors import EXIT_CODES, OverloadError, ProtocolError
from headrace.runtime.client_variables import URI_VARIABLE


def show_status(*, coordinator: str | None, connection: Connection, as_json: bool) -> None:
    """Print it, and exit with 4 unless somebody leads and every container is served.

    Raises PreconditionError: there is no cluster.
    """
    if not connection.uri and coordinator is None:
        connection = replace(connection, uri=os.environ.get(URI_VARIABLE, ""))
    by_controller = bool(connection.uri)
    document = asyncio.run(_ask(connection)) if by_controller else _look(coordinator)
    if as_json:
        print_json(document)
    else:
        _print(document)
    if not document["served"]:
        raise Exit(EXIT_CODES[OverloadError])


def _look(coordinator: str | None) -> dict[str, Any]:
    return document_of(in_session(coordinator, look))


async def _ask(connection: Connection) -> dict[str, Any]:
    """Return what a controller says of its cluster. Raises what its client does."""
    from headrace.rpc.generated import cluster_status_pb2 as sb

    controller = connection.controller()
    try:
        reply = await controller.call_cluster_status("getClusterStatus", sb.GetClusterStatusRequest())
    finally:
        await controller.close()
    try:
        found: dict[str, Any] = json.loads(reply.document)
    except ValueError as error:
        raise ProtocolError(f"{connection.uri} answers what is not JSON: {error}") from None
    return found


def _print(document: dict[str, Any]) -> None:
    facts = document["facts"]
    print_fields(
        [
            ("system", facts["system"]),
            ("log", facts["log"]),
            ("storage", facts["storage"]),
            ("format", facts["format"]),
            ("leader", document["leader"]),
            ("map", None if document["map"] is None else f"generation {document['map']['generation']}"),
        ]
    )
    if document["controllers"]:
        print_line("")
        print_columns(
            ("controller", "version", "formats", "buckets"),
            [
                [each["address"], each["version"], spoken(each["formats"]), len(each["buckets"])]
                for each in document["controllers"]
            ],
        )
    if document["stores"]:
        print_line("")
        print_columns(
            ("store", "address", "version", "formats", "containers", "state"),
            [
                [
                    each["id"],
                    each["address"],
                    each["version"] or None,
                    spoken(each["formats"]),
                    len(each["containers"]),
                    "drains" if each["draining"] else "serves",
                ]
                for each in document["stores"]
            ],
        )
    print_line("")
    print_columns(
        ("container", "served by", "epoch", "what"),
        [
            [each["container"], each["address"] if each["served"] else None, each["epoch"], each["why"]]
            for each in document["containers"]
        ],
    )
    waiting = len(document["candidates"]) - len(document["controllers"])
    if waiting > 0:
        progress(f"{counted(waiting, 'controller')} started and not ready")
    if document["freeBuckets"]:
        progress(f"{counted(len(document['freeBuckets']), 'bucket')} without a controller: its work waits")
    for problem in document["problems"]:
        progress(problem)
