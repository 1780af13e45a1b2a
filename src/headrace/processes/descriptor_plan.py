"""Divides the descriptors that the system grants a server. Pure.

Logs come first: a log that cannot open its next file ends its container. Clients get at
most the rest, so that no number of them ends a container.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.errors import InvalidArgumentError
from headrace.storage.providers.config import ChunkThreadsConfig

PROCESS_DESCRIPTORS: Final = 128
"""For the interpreter, loops, gRPC and REST, whose connections are not counted: some dozens of them fit."""
CONTAINER_DESCRIPTORS: Final = 16
"""Of a container: its log's files in use, next, old and just read, and the owner file, with some to spare."""
CONNECTION_DESCRIPTORS: Final = 2
"""Of a connection: its socket, and a second one once chunk files are sent over it."""
CHUNK_FILES_SHARE: Final = 8
"""One in so many of the rest is for chunk files that stay open, up to their own bound."""


@dataclass(frozen=True, slots=True)
class DescriptorPlan:
    """Bounds on connections of clients, and on chunk files that stay open for their reads."""

    connections_max: int
    chunk_files_max: int


def containers_at_once(containers: int, stores: int) -> int:
    """Return for how many containers a store is planned that begins in a cluster of so many ``stores``,
    itself among them: twice its share, so that half of the stores may be gone; of two, and alone, all.

    It may get more. Then clients may have the descriptors of a log, which starts once they have left.
    """
    return min(containers, 2 * -(-containers // stores))


def plan_descriptors(
    limit: int | None,
    containers: int,
    connections_max: int,
    threads: ChunkThreadsConfig,
    chunk_files_max: int,
) -> DescriptorPlan:
    """Divide ``limit`` descriptors (None: there is no limit) of a server.

    Args:
        limit: what the system grants the process.
        containers: how many the host is planned for.
        connections_max: never plan for more connections.
        threads: each has a chunk file open at a time.
        chunk_files_max: never plan for more open chunk files.

    Raises:
        InvalidArgumentError: there are too few for a single connection.
    """
    if limit is None:
        return DescriptorPlan(connections_max, chunk_files_max)
    reserved = PROCESS_DESCRIPTORS + CONTAINER_DESCRIPTORS * containers
    reserved += threads.writes + threads.reads + threads.chores
    left = limit - reserved
    files = min(chunk_files_max, left // CHUNK_FILES_SHARE)
    connections = min(connections_max, (left - files) // CONNECTION_DESCRIPTORS)
    if files < 1 or connections < 1:
        raise InvalidArgumentError(
            f"the system lets this process open {limit} files; {containers} containers need "
            f"{reserved + CHUNK_FILES_SHARE} and every connection {CONNECTION_DESCRIPTORS} more: raise the "
            "limit (ulimit -n, LimitNOFILE) or run fewer containers"
        )
    return DescriptorPlan(connections, files)
