"""How large streams are: their segments now, and the bytes of all that are retained."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from headrace.errors import NoSuchSegmentError, NoSuchStreamError

if TYPE_CHECKING:  # the connection imports the client when it is made
    from headrace.client.blocking import BlockingClient

_AT_ONCE: Final = 16
"""Streams that are asked about at a time."""

SEGMENTS_ASKED_MAX: Final = 1000
"""Of one stream: the bytes of one with more are not counted."""


@dataclass(frozen=True, slots=True)
class StreamSize:
    """One stream. A sealed one has no segments that take events."""

    scope: str
    stream: str
    segments: int
    size_bytes: int | None
    """Of its segments, retained ones from before a scale included; None: they are too many to ask for."""
    tags: tuple[str, ...]

    @property
    def sealed(self) -> bool:
        """Whether it takes no events any more."""
        return not self.segments


def size_of(client: BlockingClient, scope: str, stream: str) -> StreamSize:
    """Return how large a stream is now. Raises NoSuchStreamError."""
    tags = tuple(sorted(client.stream_configuration(scope, stream).tags))
    current = client.current_segments(scope, stream)
    return StreamSize(scope, stream, len(current), bytes_of(client, scope, stream), tags)


def bytes_of(client: BlockingClient, scope: str, stream: str) -> int | None:
    """Return the bytes of a stream that are retained; None if it has too many segments to ask for.

    Raises NoSuchStreamError.
    """
    retained = client.segments_between(client.head_cut(scope, stream))
    if len(retained) > SEGMENTS_ASKED_MAX:
        return None
    size = 0
    for segment_id in retained:
        with suppress(NoSuchSegmentError):  # truncated meanwhile
            info = client.segment_info(scope, stream, segment_id)
            size += info.length - info.start_offset
    return size


def sizes_of(client: BlockingClient, names: Iterable[tuple[str, str]]) -> Iterator[StreamSize]:
    """Yield how large streams are, in their order, without those that are deleted meanwhile."""

    def find(name: tuple[str, str]) -> StreamSize | None:
        try:
            return size_of(client, *name)
        except NoSuchStreamError:
            return None

    rest = iter(names)
    with ThreadPoolExecutor(_AT_ONCE, "streams") as pool:
        while some := list(islice(rest, 8 * _AT_ONCE)):
            yield from filter(None, pool.map(find, some))
