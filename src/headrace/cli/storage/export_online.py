"""An export through a running server: what a stream has between its head and its tail of the moment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from headrace.cli.progress import Progress
from headrace.cli.servers import Connection, scoped
from headrace.cli.storage.exported_segments import put_list, put_segment
from headrace.model.names import segment_name
from headrace.storage.transfer.export_format import ExportedSegment
from headrace.storage.transfer.plain_files import ExportPlace

if TYPE_CHECKING:  # the client is imported when a server is asked: help is fast
    from headrace.client.blocking import BlockingClient


def export_online(
    connection: Connection, names: Sequence[str], place: ExportPlace, progress: Progress
) -> list[ExportedSegment]:
    """Export streams, ``scope/stream`` each, that may be written to meanwhile.

    Raises:
        NoSuchStreamError: there is none of a name.
        SegmentTruncatedError, NoSuchSegmentError: the stream was truncated meanwhile; the export broke off.
    """
    exported: list[ExportedSegment] = []
    taken = 0

    def counted(blocks: Iterator[memoryview]) -> Iterator[memoryview]:
        nonlocal taken
        for block in blocks:
            yield block
            taken += len(block)
            progress.show(taken)

    with connection.connect() as client:
        for name in dict.fromkeys(names):
            scope, stream = scoped(name)
            for segment_id, start, end, sealed in _find_segments(client, scope, stream):
                full_name = segment_name(scope, stream, segment_id)
                with client.read_segment_range(scope, stream, segment_id, start, end) as reader:
                    checksum = put_segment(place, full_name, start, counted(iter(reader)))
                exported.append(ExportedSegment(full_name, start, end, sealed, checksum, {}))
    put_list(place, exported)
    return exported


def _find_segments(client: BlockingClient, scope: str, stream: str) -> list[tuple[int, int, int, bool]]:
    """Return id, first offset, end and whether it is sealed of each segment, as they are now."""
    head, tail = client.head_cut(scope, stream), client.tail_cut(scope, stream)
    found = []
    for segment_id in client.segments_between(head, tail, scope=scope, stream=stream):
        info = client.segment_info(scope, stream, segment_id)
        end = tail.offsets.get(segment_id, info.length)
        found.append((segment_id, max(head.offsets.get(segment_id, 0), info.start_offset), end, info.sealed))
    return found
