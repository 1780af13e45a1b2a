"""Commands of operators."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.wire.commands.kinds import Reply, Request
from headrace.wire.fields import ChunkInfos, Int32, Int64, Text


@dataclass(slots=True)
class FlushToStorage(Request):
    """Move everything durable of a container into long-term storage."""

    container_id: Int32
    delegation_token: Text
    request_id: Int64


@dataclass(slots=True)
class StorageFlushed(Reply):
    """Everything is in long-term storage."""

    request_id: Int64


@dataclass(slots=True)
class ListStorageChunks(Request):
    """List the chunks of a segment."""

    segment: Text
    delegation_token: Text
    request_id: Int64


@dataclass(slots=True)
class StorageChunksListed(Reply):
    """The chunks of a segment."""

    request_id: Int64
    chunks: ChunkInfos
